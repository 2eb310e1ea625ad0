package host_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func backup(t *testing.T, h *host.Host) (data, keys *bytes.Buffer) {
	t.Helper()
	data, keys = &bytes.Buffer{}, &bytes.Buffer{}
	if _, err := h.Backup(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if _, err := h.BackupKeys(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	return data, keys
}

// settled ticks until an operation's outcome is known.
func settled(t *testing.T, h *host.Host, id connector.OperationID) connector.OperationRecord {
	t.Helper()
	for {
		if _, err := h.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec, err := h.Ledger.Get(t.Context(), alice.Tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		if rec.State != connector.StateUnknown {
			return rec
		}
		select {
		case <-t.Context().Done():
			t.Fatal("never settled")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The copy is made between the approval and the write, the write happens, and then
// the copy is all there is.
//
// Guarantees: OPS4, TIX5
func TestARestoredBackupWritesNothingTwice(t *testing.T) {
	org := startOrg(t)
	dir := t.TempDir()
	h := open(t, dir, "", org)
	connect(t, h, org)
	sent, never := create(t, h, "sent after the backup"), create(t, h, "never sent")
	for _, r := range []connector.Result{sent, never} {
		if _, err := h.Ledger.Approve(t.Context(), alice.Tenant, string(r.Pending.Approval), "maria"); err != nil {
			t.Fatal(err)
		}
	}
	data, keys := backup(t, h)
	if r := create(t, h, "sent after the backup"); r.Status != connector.StatusSuccess {
		t.Fatalf("%+v", r)
	}

	restored := t.TempDir()
	result, err := host.Restore(t.Context(), restored, bytes.NewReader(data.Bytes()), bytes.NewReader(keys.Bytes()))
	if err != nil || result.Unknown != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	again := open(t, restored, "", org)
	for _, title := range []string{"sent after the backup", "never sent"} {
		if r := create(t, again, title); r.Status != connector.StatusUnknown {
			t.Errorf("%s: %s %+v", title, r.Status, r.Error)
		}
	}
	if rec := settled(t, again, sent.Effect.Operation); rec.State != connector.StateApplied {
		t.Errorf("what was sent is %s (%s)", rec.State, rec.Reason)
	}
	if rec := settled(t, again, never.Effect.Operation); rec.State != connector.StateRejected {
		t.Errorf("what was never sent is %s (%s)", rec.State, rec.Reason)
	}
	if org.Count("sent after the backup") != 1 || org.Count("never sent") != 0 {
		t.Errorf("the provider holds %d and %d", org.Count("sent after the backup"), org.Count("never sent"))
	}
	// What provably never was can be proposed again.
	if r := create(t, again, "never sent"); r.Pending == nil || r.Effect.Operation == never.Effect.Operation {
		t.Errorf("%s %+v", r.Status, r.Error)
	}
}

// Guarantees: OPS4, CRE4
func TestABackupOpensNothingByItself(t *testing.T) {
	org := startOrg(t)
	h := open(t, t.TempDir(), "", org)
	connect(t, h, org)
	data, keys := backup(t, h)
	for _, token := range org.Canaries() {
		if bytes.Contains(data.Bytes(), []byte(token)) {
			t.Error("a token is in the backup")
		}
	}
	other := open(t, t.TempDir(), "", org)
	_, strange := backup(t, other)
	flipped := bytes.Clone(data.Bytes())
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct{ data, keys io.Reader }{
		"no keys":       {bytes.NewReader(data.Bytes()), strings.NewReader("")},
		"other keys":    {bytes.NewReader(data.Bytes()), strange},
		"keys for data": {bytes.NewReader(keys.Bytes()), bytes.NewReader(keys.Bytes())},
		"one bit":       {bytes.NewReader(flipped), bytes.NewReader(keys.Bytes())},
		"cut":           {bytes.NewReader(data.Bytes()[:data.Len()/2]), bytes.NewReader(keys.Bytes())},
		"a path":        {elsewhere(t), bytes.NewReader(keys.Bytes())},
	} {
		dir := t.TempDir()
		if _, err := host.Restore(t.Context(), dir, c.data, c.keys); err == nil {
			t.Errorf("%s: restored", name)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: it left %v", name, left)
		}
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "keys.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Restore(t.Context(), full, bytes.NewReader(data.Bytes()), bytes.NewReader(keys.Bytes())); err == nil {
		t.Error("restored over somebody's keys")
	}
}

// elsewhere is an archive that wants to write outside of its folder.
func elsewhere(t *testing.T) io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	index := `{"format":1,"created_at":"2026-01-01T00:00:00Z","keys":[],"files":[{"name":"drawbridge.db","size":1,"sha256":""},{"name":"../escaped","size":1,"sha256":""}]}`
	for _, f := range []struct{ name, text string }{{"backup.json", index}, {"../escaped", "x"}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(f.text))
	}
	w.Close()
	return &b
}

// PostgreSQL is copied by its own tools; what may have happened since is marked all
// the same.
//
// Guarantee: OPS4
func TestADatabaseThatOtherToolsRestored(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		org := startOrg(t)
		dir := t.TempDir()
		h := open(t, dir, d.URL, org)
		connect(t, h, org)
		asked := create(t, h, "restored elsewhere")
		if n, err := host.RestoredDatabase(t.Context(), host.Config{Data: dir, Database: d.URL, Policy: host.Local{}, Consent: host.Local{}}); err != nil || n != 1 {
			t.Fatalf("%d, %v", n, err)
		}
		if rec := settled(t, h, asked.Effect.Operation); rec.State != connector.StateRejected {
			t.Errorf("%s (%s)", rec.State, rec.Reason)
		}
	})
}
