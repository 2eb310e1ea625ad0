package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A folder that was restored from the two files is the same house: the connection
// works, and what was only proposed is looked up instead of sent.
//
// Guarantee: OPS4
func TestBackupAndRestore(t *testing.T) {
	org := startOrg(t)
	c := newCLI(t, "acme/alice")
	c.connect(org, "alice")
	draft := `{"project":"web","title":"Across a restore","body":"","severity":"low"}`
	asked := c.json(4, "call", "tickets.create", draft)
	dir := t.TempDir()
	data, keys := filepath.Join(dir, "data.tar"), filepath.Join(dir, "keys.tar")
	c.json(0, "backup", data, "--keys-to", keys)
	for _, path := range []string{data, keys} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if r := c.run("backup", data); r.code == 0 {
		t.Error("a backup was overwritten")
	}
	if r := c.run("restore", data, "--keys-from", keys); r.code == 0 {
		t.Error("restored over a house that is there")
	}
	if r := c.run("restore", data); r.code != 2 {
		t.Errorf("without keys: exit code %d", r.code)
	}

	other := newCLI(t, "acme/alice")
	got := other.json(0, "restore", data, "--keys-from", keys)
	if got["unknown_operations"] != 1.0 {
		t.Errorf("%v", got)
	}
	if r := other.run("call", "tickets.get", `{"id":"007"}`); r.code != 0 {
		t.Errorf("the connection: exit code %d %s", r.code, r.err)
	}
	if r := other.run("approvals", "approve", text(asked, "error", "approval_id")); r.code == 0 {
		t.Error("an approval of before can be given")
	}
	if r := other.run("call", "tickets.create", draft); r.code != 5 || org.Count("Across a restore") != 0 {
		t.Errorf("proposed again: exit code %d, %d tickets", r.code, org.Count("Across a restore"))
	}
}

func TestBackupOfADatabaseElsewhere(t *testing.T) {
	c := newCLI(t, "acme/alice")
	c.more = []string{"--database", "sqlite:" + filepath.Join(t.TempDir(), "elsewhere.db")}
	c.json(0, "backup", filepath.Join(t.TempDir(), "data.tar"))
	c.more = []string{"--database", "postgres://127.0.0.1/none"}
	if r := c.run("backup", filepath.Join(t.TempDir(), "data.tar")); r.code != 2 {
		t.Errorf("PostgreSQL: exit code %d", r.code)
	}
}
