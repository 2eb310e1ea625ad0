package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// cli runs commands against one data folder, as a person would, without the
// process around them.
type cli struct {
	t    *testing.T
	data string
	as   string
	more []string        // further flags of every command
	seen strings.Builder // everything that was ever printed
}

type ran struct {
	code     int
	out, err string
}

func newCLI(t *testing.T, as string) *cli { return &cli{t: t, data: t.TempDir(), as: as} }

func (c *cli) run(args ...string) ran {
	c.t.Helper()
	return c.runWith("", args...)
}

func (c *cli) runWith(input string, args ...string) ran {
	c.t.Helper()
	var out, errOut bytes.Buffer
	args = append(slices.Concat(args, c.more), "--data", c.data, "--as", c.as)
	code := run(c.t.Context(), args, strings.NewReader(input), &out, &errOut)
	c.seen.WriteString(out.String() + errOut.String())
	return ran{code, out.String(), errOut.String()}
}

// json runs a command with --json and reads the one object it prints.
func (c *cli) json(want int, args ...string) map[string]any {
	c.t.Helper()
	r := c.run(append(args, "--json")...)
	if r.code != want {
		c.t.Fatalf("%v: exit code %d, want %d\n%s%s", args, r.code, want, r.out, r.err)
	}
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(r.out))
	if err := d.Decode(&v); err != nil {
		c.t.Fatalf("%v: %v in %q", args, err, r.out)
	}
	if d.More() {
		c.t.Fatalf("%v printed more than one object: %q", args, r.out)
	}
	return v
}

// at reads a value by keys; nil when any of them is missing.
func at(v any, keys ...string) any {
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

func text(v any, keys ...string) string {
	s, _ := at(v, keys...).(string)
	return s
}

func startOrg(t *testing.T) *sandbox.Server {
	t.Helper()
	org, err := sandbox.Start(context.Background(), sandbox.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { org.Close() })
	return org
}

func password(t *testing.T, org *sandbox.Server, login string) string {
	t.Helper()
	for _, u := range org.Users() {
		if u.Login == login {
			return u.Password
		}
	}
	t.Fatalf("no user %s", login)
	return ""
}

func (c *cli) connect(org *sandbox.Server, login string) map[string]any {
	c.t.Helper()
	return c.json(0, "connect", "--provider", "sandbox", "--url", org.URL(), "--login", login+":"+password(c.t, org, login))
}
