package dev_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

// Each switch does what it says, to a read that works without it.
func TestFaultsDoWhatTheySay(t *testing.T) {
	t.Parallel()
	d := inside(t)
	id, err := d.org.Seed(t.Context(), kit.Object{Container: "orders", Title: "t", Body: "b"})
	if err != nil {
		t.Fatal(err)
	}
	_, page := d.do(http.MethodGet, "/faults", nil, nil)
	for fault, want := range map[string][]string{
		"lose": {"success", "Fault: lose answer", "reports 2 attempts"}, "never": {"success", "Fault: cut before", "was not asked", "reports 2 attempts"},
		"cut": {"success", "Fault: cut after headers", "reports 2 attempts"}, "half": {"success", "Fault: half body", "reports 2 attempts"},
		"429": {"RATE_LIMITED", "given 429", "Wait 120 s"}, "503": {"success", "given 503", "reports 2 attempts"},
		"500": {"success", "answered 200; the connector was given 500", "reports 2 attempts"}, "html": {"PROVIDER_CONTRACT", "was not asked; the connector was given 200"},
		"redirect": {"EGRESS_BLOCKED", "given 302"}, "twice": {"success", "answered 200, answered 200"},
	} {
		if !strings.Contains(page, `value="`+fault+`"`) {
			t.Errorf("there is no %s", fault)
		}
		d.post("/faults", "fault", fault, "on", "reads", "times", "once")
		_, answer := d.post("/tools/tickets.get", "/id", id)
		text := plain(answer)
		if !strings.Contains(text, "Get a ticket: "+want[0]) {
			t.Errorf("%s: not %s but %s", fault, want[0], text[:min(len(text), 300)])
		}
		d.reads(text, want[1:]...)
		if n := d.bench.Proxy.Unspent(); n != 0 {
			t.Errorf("%s: %d faults are left", fault, n)
		}
		if status, _ := d.post("/fresh"); status != http.StatusOK {
			t.Errorf("fresh answers %d", status)
		}
	}
	// The one that ends a connection comes last.
	d.post("/faults", "fault", "401", "on", "reads", "times", "forever")
	_, answer := d.post("/tools/tickets.get", "/id", id)
	d.reads(plain(answer), "CONNECTION_REQUIRED")
}

// What a rate limit leaves behind is forgotten when one asks for it, and not before.
func TestFreshForgetsCoolDowns(t *testing.T) {
	t.Parallel()
	d := inside(t)
	id, err := d.org.Seed(t.Context(), kit.Object{Container: "orders", Title: "t", Body: "b"})
	if err != nil {
		t.Fatal(err)
	}
	d.post("/faults", "fault", "429", "on", "all", "times", "forever")
	d.post("/tools/tickets.get", "/id", id)
	if _, page := d.post("/faults/off"); strings.Contains(page, "Switched on") || d.bench.Proxy.Unspent() != 0 {
		t.Error("the fault is still on")
	}
	before := len(d.bench.Proxy.Seen())
	_, page := d.post("/tools/tickets.get", "/id", id)
	d.reads(plain(page), "RATE_LIMITED", "On the wire meanwhile (0)")
	if n := len(d.bench.Proxy.Seen()); n != before {
		t.Errorf("%d requests while the limit cools down", n-before)
	}
	d.post("/fresh")
	_, page = d.post("/tools/tickets.get", "/id", id)
	d.reads(plain(page), "success")
}

func TestFaultsThatAreNone(t *testing.T) {
	t.Parallel()
	d := inside(t)
	for _, form := range [][]string{{}, {"fault", "meteor", "on", "all"}, {"fault", "lose", "on", "mondays"}} {
		if status, _ := d.post("/faults", form...); status != http.StatusUnprocessableEntity {
			t.Errorf("%v answers %d", form, status)
		}
	}
	if n := d.bench.Proxy.Unspent(); n != 0 {
		t.Errorf("%d faults are on", n)
	}
	for _, path := range []string{"/calls/7", "/calls/x", "/tools/none", "/operations/op_none", "/nowhere"} {
		if status, _ := d.do(http.MethodGet, path, nil, nil); status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, status)
		}
	}
}
