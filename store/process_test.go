package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

// The test binary runs itself as another process of the same database.
const (
	childRole = "STORE_TEST_CHILD"
	childURL  = "STORE_TEST_CHILD_URL"
)

// once has a statement that works any number of times, so that a migration
// that is applied twice shows in the data and not as an error.
var once = store.Migrations{Service: "once", FS: fstest.MapFS{
	"00001_runs.sql": {Data: []byte("-- +goose Up\nCREATE TABLE runs (id BIGINT NOT NULL, big TEXT);\n")},
	"00002_run.sql":  {Data: []byte("-- +goose Up\nINSERT INTO runs (id) VALUES (2);\n")},
	"00003_run.sql":  {Data: []byte("-- +goose Up\nINSERT INTO runs (id) VALUES (3);\n")},
}}

func child(role string) int {
	if err := runChild(role, os.Getenv(childURL)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runChild(role, url string) error {
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := store.Open(ctx, store.Config{URL: url, Migrations: []store.Migrations{once, counters}})
	if err != nil {
		return err
	}
	if role == "migrate" {
		return db.Close()
	}
	for i := int64(100); ; i++ {
		err := db.Update(ctx, func(tx *store.Tx) error {
			// Two rows, so that half a transaction would show.
			for range 2 {
				if _, err := tx.Exec(ctx, "INSERT INTO runs (id, big) VALUES (?, ?)", i, strings.Repeat("x", 5000)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Println(i)
	}
}

type process struct {
	cmd   *exec.Cmd
	start io.WriteCloser
	out   *bufio.Reader
	err   strings.Builder
}

// spawn returns when the child is about to open the database.
func spawn(t *testing.T, role, url string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childRole+"="+role, childURL+"="+url)
	p.cmd.Stderr = &p.err
	var err error
	if p.start, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	if _, err := p.out.ReadString('\n'); err != nil {
		t.Fatalf("child did not start: %v", err)
	}
	return p
}

func (p *process) run(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.start, "go\n"); err != nil {
		t.Fatal(err)
	}
}

func TestProcessesMigrateAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		children := []*process{spawn(t, "migrate", d.URL), spawn(t, "migrate", d.URL)}
		for _, p := range children {
			p.run(t)
		}
		db := d.Open(once)
		for _, p := range children {
			io.Copy(io.Discard, p.out)
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("child: %v: %s", err, p.err.String())
			}
		}
		if n := count(t, db, "SELECT count(*) FROM runs"); n != 2 {
			t.Errorf("%d rows, want 2: a migration was applied twice or not at all", n)
		}
		if n := count(t, db, "SELECT count(*) FROM counters"); n != 0 {
			t.Errorf("%d counters, want an empty table", n)
		}
	})
}

func TestAcknowledgedCommitSurvivesKill(t *testing.T) {
	storetest.Each(t, func(t *testing.T, d storetest.Database) {
		p := spawn(t, "commit", d.URL)
		p.run(t)
		last := int64(0)
		for lines := 0; ; lines++ {
			line, err := p.out.ReadString('\n')
			if err != nil {
				break // killed, and everything it said is read
			}
			if last, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64); err != nil {
				t.Fatal(err)
			}
			if lines == 25 {
				if err := p.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.cmd.Wait()
		if last < 125 {
			t.Fatalf("child stopped at %d: %s", last, p.err.String())
		}
		db := d.Open(once, counters)
		// The server may still be working for the dead client.
		update(t, db, "UPDATE counters SET n = n")
		if n := count(t, db, "SELECT count(*) FROM (SELECT id FROM runs WHERE id BETWEEN 100 AND ? GROUP BY id HAVING count(*) = 2) AS whole", last); n != last-99 {
			t.Errorf("%d acknowledged commits are there, want %d", n, last-99)
		}
		if n := count(t, db, "SELECT count(*) FROM runs WHERE id > ?", last); n != 0 && n != 2 {
			t.Errorf("%d rows past the last acknowledgement, want none or one whole transaction", n)
		}
	})
}

// A run without the server must not look like a green run on both engines.
func TestMissingServerFailsWhenRequired(t *testing.T) {
	for _, required := range []string{"", "1"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoRow$")
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "DRAWBRIDGE_TEST_POSTGRES=") && !strings.HasPrefix(v, "CI_REQUIRE_POSTGRES=") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "CI_REQUIRE_POSTGRES="+required)
		out, err := cmd.CombinedOutput()
		if failed := err != nil; failed != (required == "1") {
			t.Errorf("CI_REQUIRE_POSTGRES=%q: failed = %v\n%s", required, failed, out)
		}
	}
}
