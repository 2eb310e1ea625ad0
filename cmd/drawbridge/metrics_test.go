package main

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Guarantee: OPS4
func TestMetricsOfAServer(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	c.json(4, "call", "tickets.create", `{"project":"orders","title":"Measured","body":"b","severity":"low"}`)
	address := freeAddress(t)
	s := c.serve("--metrics-listen", address)
	resp, err := s.client.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	page := string(raw)
	for _, line := range []string{
		`drawbridge_approvals_open 1`, `drawbridge_operations_unknown 0`, `drawbridge_operations_unresolved 0`, `drawbridge_deliveries_waiting 0`,
		`drawbridge_lanes_parked 0`, `drawbridge_mirror_drift 0`, `go_goroutines \d+`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(page) {
			t.Errorf("there is no line %q", line)
		}
	}
	for _, secret := range append(org.Canaries(), "alice", "acme", "Measured") {
		if strings.Contains(page, secret) {
			t.Errorf("%q is on the page", secret)
		}
	}
	// It is on no other page: that one is open to people and senders.
	if status, body := s.do("GET", "/metrics", nil); status == http.StatusOK && strings.Contains(body, "drawbridge_") {
		t.Error("the metrics are public")
	}
	if t.Failed() {
		t.Log(page)
	}
}

// freeAddress was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
