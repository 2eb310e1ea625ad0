package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A server that holds itself still does its work: it reaches the provider, writes its
// database and ends cleanly. The rest is shown by package confine.
//
// Guarantee: OPS7
func TestAConfinedServerWorks(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	r, ok := c.replica("--listen", "127.0.0.1:0", "--confine", "require")
	if !ok {
		if strings.Contains(r.log.String(), "this kernel can't confine") {
			t.Skip("this kernel has no Landlock for files and ports")
		}
		t.Fatal(r.log.String())
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	got := callOver(t.Context(), &http.Client{Transport: transport}, r.base, c.token(), "sandbox.tickets.get", `{"id":"007"}`)
	if text(got, "status") != "success" {
		t.Errorf("%v\n%s", got, r.log.String())
	}
	if code := r.stop(); code != 0 {
		t.Errorf("it ended with %d\n%s", code, r.log.String())
	}
	u, _ := url.Parse(org.URL())
	if !strings.Contains(r.log.String(), "msg=confined files=true ports=true connect=["+u.Port()+"]") {
		t.Errorf("the ports that it may dial are not the provider's alone:\n%s", r.log.String())
	}
}

// The variable that --keys names is a setting, whatever it is called.
func TestAServerKeepsTheVariableOfItsKeys(t *testing.T) {
	c := newCLI(t, "acme/alice")
	t.Setenv("RING_OF_THE_HOUSE", strings.TrimSpace(c.run("keys", "generate").out))
	c.more = []string{"--keys", "env:RING_OF_THE_HOUSE"}
	if r, ok := c.replica("--listen", "127.0.0.1:0"); !ok {
		t.Error(r.log.String())
	}
}
