package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/store"
)

// What is wrong is named with what to do about it, and only then is the exit code
// another than 0.
//
// Guarantee: OPS4
func TestDoctorFindsWhatIsWrongHere(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	c.json(4, "call", "tickets.create", `{"project":"orders","title":"t","body":"b","severity":"low"}`)
	if r := c.run("doctor"); r.code != 0 || !strings.Contains(r.out, "here: nothing is wrong") {
		t.Fatalf("a sound house: %d %s%s", r.code, r.out, r.err)
	}

	// A write that nobody could settle, an hour-old one, a delivery that nobody decodes,
	// and a provider that has thrown us out.
	db, err := store.Open(t.Context(), store.Config{URL: "sqlite:" + filepath.Join(c.data, "drawbridge.db")})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		for _, statement := range []string{
			`UPDATE operation SET state = 'unresolved'`,
			`INSERT INTO webhook_delivery (id, tenant, endpoint, delivery_id, digest, conflict_of, provider, connection, event_type, secret, id_signed, pull,
				received_at, state, reason, tries, claimed_until, decoded_at, marks, repeats, kept, body)
			VALUES ('1', 'acme', 'e', 'd', 'x', '', 'sandbox', 'c', '', '', 1, 0, 1, 'received', '', 0, 0, 0, 0, 0, 0, NULL)`,
		} {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	org.RevokeUser("alice")
	c.run("call", "tickets.get", `{"id":"007"}`)

	r := c.run("doctor")
	if r.code != 1 {
		t.Errorf("exit code %d", r.code)
	}
	for _, want := range []string{
		"1 write could not be settled", "drawbridge operations --data", "not decoded yet: 1 delivery", "is drawbridge serve running?",
		"a connection has to be made again", "drawbridge connect --provider sandbox --connection con_",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is missing in\n%s", want, r.out)
		}
	}
	var report struct {
		Findings []finding `json:"findings"`
	}
	first, _, _ := strings.Cut(c.run("doctor", "--json").out, "\n")
	if err := json.Unmarshal([]byte(first), &report); err != nil || len(report.Findings) != 3 {
		t.Errorf("%v: %s", err, first)
	}
}
