package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeysAreTurnedOver goes the whole way by the commands, with a connection
// and a proposal that must stay usable at every step.
// Guarantee: CRE4
func TestKeysAreTurnedOver(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	draft := `{"project":"web","title":"Across keys","body":"","severity":"low"}`
	approval := text(c.json(4, "call", "tickets.create", draft), "error", "approval_id")
	works := func(when string) {
		t.Helper()
		if r := c.run("call", "tickets.get", `{"id":"007"}`); r.code != 0 {
			t.Errorf("%s: exit code %d %s", when, r.code, r.err)
		}
		if r := c.run("approvals", "show", approval); r.code != 0 {
			t.Errorf("%s: the approval can't be read: %s", when, r.err)
		}
	}
	type key struct {
		ID      uint32 `json:"id"`
		Primary bool   `json:"primary"`
		Seals   int    `json:"seals"`
	}
	list := func(args ...string) (keys []key) {
		t.Helper()
		r := c.run(append(args, "--json")...)
		if r.code != 0 {
			t.Fatalf("%v: exit code %d %s", args, r.code, r.err)
		}
		d := json.NewDecoder(strings.NewReader(r.out))
		for d.More() {
			var k key
			if err := d.Decode(&k); err != nil {
				t.Fatal(err)
			}
			keys = append(keys, k)
		}
		return keys
	}
	old := list("keys")[0]
	if old.Seals == 0 || !old.Primary {
		t.Fatalf("the first key: %+v", old)
	}
	var fresh key
	for _, k := range list("keys", "add") {
		if k.ID != old.ID {
			fresh = k
		}
	}
	works("after add")
	list("keys", "promote", fmt.Sprint(fresh.ID))
	works("after promote")
	if r := c.run("keys", "disable", fmt.Sprint(fresh.ID)); r.code == 0 {
		t.Error("the primary could be disabled")
	}
	for _, k := range list("keys", "rewrap") {
		if k.ID == old.ID && k.Seals != 0 || k.ID == fresh.ID && k.Seals < old.Seals {
			t.Errorf("after rewrap: %+v", k)
		}
	}
	works("after rewrap")
	list("keys", "disable", fmt.Sprint(old.ID))
	works("after disable")
	if r := c.runWith("no\n", "keys", "destroy", fmt.Sprint(old.ID)); r.code != 2 {
		t.Errorf("destroyed without the typed word: exit code %d", r.code)
	}
	if left := list("keys", "destroy", fmt.Sprint(old.ID), "--yes"); len(left) != 1 || left[0].ID != fresh.ID {
		t.Errorf("after destroy: %+v", left)
	}
	works("after destroy")
}

func TestAKeyInUseIsNotDestroyed(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	first := text(map[string]any{"id": fmt.Sprint(uint32(c.json(0, "keys")["id"].(float64)))}, "id")
	r := c.run("keys", "add", "--json")
	for line := range strings.Lines(r.out) {
		var k struct {
			ID uint32 `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &k); err != nil {
			t.Fatal(err)
		}
		if id := fmt.Sprint(k.ID); id != first {
			c.run("keys", "promote", id)
		}
	}
	if r := c.run("keys", "disable", first); r.code != 0 {
		t.Fatalf("disable: %s", r.err)
	}
	if r := c.run("keys", "destroy", first, "--yes"); r.code == 0 {
		t.Error("a key that still seals tokens was destroyed")
	}
	c.run("keys", "enable", first)
	if r := c.run("call", "tickets.get", `{"id":"007"}`); r.code != 0 {
		t.Errorf("after enabling it again: %s", r.err)
	}
}

// Guarantee: TIX6
func TestAReceiptIsCheckedOffline(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	draft := `{"project":"web","title":"Signed","body":"","severity":"low"}`
	c.json(0, "approvals", "approve", text(c.json(4, "call", "tickets.create", draft), "error", "approval_id"))
	op := text(c.json(0, "call", "tickets.create", draft), "receipt", "operation_id")
	dir := t.TempDir()
	receipt, public := filepath.Join(dir, "receipt.json"), filepath.Join(dir, "drawbridge.pub")
	for file, args := range map[string][]string{receipt: {"receipts", "export", op}, public: {"receipts", "key"}} {
		r := c.run(args...)
		if r.code != 0 {
			t.Fatalf("%v: %s", args, r.err)
		}
		if err := os.WriteFile(file, []byte(r.out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := newCLI(t, "other/team") // no data of ours
	if s := elsewhere.json(0, "receipts", "verify", receipt, "--key", public); text(s, "operation_id") != op || text(s, "approved_by") != "alice" {
		t.Errorf("statement: %v", s)
	}
	raw, err := os.ReadFile(receipt)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(raw), `"approved_by":"alice"`, `"approved_by":"mallory"`, 1)
	if forged == string(raw) {
		t.Fatal("nothing was forged")
	}
	if r := elsewhere.runWith(forged, "receipts", "verify", "-", "--key", public); r.code == 0 {
		t.Errorf("a forged receipt holds: %s", r.out)
	}
	other := newCLI(t, "acme/alice")
	if err := os.WriteFile(public, []byte(other.run("receipts", "key").out), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := elsewhere.run("receipts", "verify", receipt, "--key", public); r.code == 0 {
		t.Error("another key verifies it")
	}
}

// Guarantee: RUN7
func TestAuditIsReadVerifiedAndExported(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	c.json(0, "call", "tickets.get", `{"id":"007"}`, "--call-id", "call-one")
	c.json(4, "call", "tickets.get", `{"id":7}`, "--call-id", "call-two")
	tail := c.run("audit", "tail", "--json")
	var calls []string
	for line := range strings.Lines(tail.out) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, text(r, "call_id")+" "+text(r, "status")+" "+text(r, "decision"))
	}
	if got := strings.Join(calls, "; "); got != "call-one success allowed; call-two error not_reached" {
		t.Errorf("records: %s", got)
	}
	if head := c.json(0, "audit", "verify"); at(head, "seq") != 2.0 {
		t.Errorf("head: %v", head)
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	exported := c.run("audit", "export").out
	if err := os.WriteFile(file, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := newCLI(t, "acme/alice")
	elsewhere.json(0, "audit", "verify", file)
	if err := os.WriteFile(file, []byte(strings.Replace(exported, `"status":"error"`, `"status":"success"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := elsewhere.run("audit", "verify", file); r.code == 0 {
		t.Error("a changed record is in its place")
	}
}
