package surface

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

var update = flag.Bool("update", false, "write golden files anew")

// The lock file of a connector, as it stands in a repository.
// Guarantee: CON7
func TestLockFile(t *testing.T) {
	got := text(t, Of(desk(plainInput, plainOutput)))
	const file = "testdata/connector.lock.json"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := text(t, reread(t, Of(desk(plainInput, plainOutput)))); again != got {
		t.Errorf("read and written again it is another text:\n%s", cmp.Diff(got, again))
	}
}

// The order of the code is not a part of the surface.
func TestOrderDoesNotMatter(t *testing.T) {
	c := desk(plainInput, plainOutput)
	c.Operations = []connector.Operation{c.Operations[1], c.Operations[0]}
	c.Auth.Scopes = []string{"notes", "profile"}
	if diff := cmp.Diff(text(t, Of(desk(plainInput, plainOutput))), text(t, Of(c))); diff != "" {
		t.Error(diff)
	}
}

// Guarantee: CON7
func TestEveryFaultNamesItsLine(t *testing.T) {
	raw, err := os.ReadFile("testdata/connector.lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		old, new string
		want     []string // line, pointer, problem
	}{
		"unknown key":             {`"surface": 1,`, `"surface": 1, "token": "x",`, []string{"2 /token is not a key of this format"}},
		"another format":          {`"surface": 1,`, `"surface": 2,`, []string{"2 /surface must be the number 1, the only format there is"}},
		"manifest's unknown key":  {`"owner": `, `"password": "x", "owner": `, []string{"7 /manifest/password is not a key of this format"}},
		"manifest's class":        {`"effect": "read"`, `"effect": "harmless"`, []string{"23 /manifest/capabilities/0/effect must be one of read, reversible_write, compensable_write, irreversible_write"}},
		"tool without capability": {`"name": "desk.get",` + "\n" + `      "title"`, `"name": "desk.got",` + "\n" + `      "title"`, []string{"55 /tools lacks capabilities of the manifest: 1", "56 /tools/0 is there twice or is no capability of the manifest"}},
		"tool without title":      {`"title": "Note",`, ``, []string{"56 /tools/0 lacks the key title"}},
		"schema that is none":     {`"input": {`, `"input": true, "inputs": {`, []string{"60 /tools/0/input must be a JSON Schema object", "60 /tools/0/inputs is not a key of this format"}},
		"name twice in a schema":  {`"maxLength": 10,`, `"maxLength": 10, "maxLength": 99999,`, []string{"70 /tools/0/input/properties/id/maxLength is there twice"}},
		"not JSON":                {`"surface": 1,`, `"surface": 01,`, []string{"2  this is not JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			edited := strings.Replace(string(raw), tc.old, tc.new, 1)
			_, err := Read(strings.NewReader(edited))
			var got []string
			for _, e := range each(err) {
				var f *Fault
				if !errors.As(e, &f) {
					t.Fatalf("%T is not a *Fault: %v", e, e)
				}
				got = append(got, fmt.Sprintf("%d %s %s", f.Line, f.Pointer, f.Problem))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFileWithoutEndIsRefused(t *testing.T) {
	_, err := Read(strings.NewReader(`{"surface":1,` + strings.Repeat(" ", maxBytes)))
	if err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Errorf("error %v", err)
	}
}

// Whatever Read accepts, Write writes so that Read accepts it again, without a
// difference; and Diff ends.
func FuzzRead(f *testing.F) {
	raw, err := os.ReadFile("testdata/connector.lock.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add(`{"surface":1,"manifest":{},"tools":[]}`)
	f.Add(strings.Replace(string(raw), `"type": "string"`, `"$ref": "#/$defs/x"`, 1))
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := Read(strings.NewReader(raw))
		if err != nil {
			return
		}
		again := reread(t, s)
		if d := Diff(s, again); len(d) > 0 {
			t.Fatalf("read again it differs: %v", d)
		}
		Diff(surfaceOf(t), s)
	})
}
