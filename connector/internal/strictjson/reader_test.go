package strictjson

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocateCountsCharacters(t *testing.T) {
	raw := []byte("{\n  \"ä\": 1,\r\n\t\"b\": 2}")
	n, malformed := Parse(raw)
	if malformed != nil {
		t.Fatal(malformed)
	}
	var got [][2]int
	for _, m := range n.Members {
		line, column := Locate(raw, m.Value.At)
		got = append(got, [2]int{line, column})
	}
	if diff := cmp.Diff([][2]int{{2, 8}, {3, 7}}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if line, column := Locate(raw, len(raw)+10); line != 3 || column != 9 {
		t.Errorf("behind the end is %d:%d, want 3:9", line, column)
	}
}

func TestObjectKeepsGoing(t *testing.T) {
	n, malformed := Parse([]byte(`{"a": 1, "x/~": 2, "a": "again", "list": ["p", "p", 3]}`))
	if malformed != nil {
		t.Fatal(malformed)
	}
	var (
		r    Reader
		a, b string
		list []string
	)
	r.Object(n, "", map[string]Field{"a": r.Text(&a), "b": r.Text(&b), "c": Optional(r.Text(&b)), "list": r.Texts(&list)})
	var got []string
	for _, f := range r.Faults() {
		got = append(got, f.Pointer+" "+f.Problem)
	}
	if diff := cmp.Diff([]string{
		" lacks the key b",
		"/a must be a string that says something",
		"/x~1~0 is not a key of this format",
		"/a is there twice",
		"/list/1 is there twice",
		"/list/2 must be a string that says something",
	}, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"p", "p", ""}, list); diff != "" {
		t.Error(diff)
	}
}

// What is no list leaves nil, so that checks against it don't report twice.
func TestWhatIsNoListIsNotAnEmptyOne(t *testing.T) {
	n, _ := Parse([]byte(`"x"`))
	var r Reader
	var list []string
	r.Texts(&list).Read(n, "")
	if list != nil || len(r.Faults()) != 1 {
		t.Errorf("list %v, faults %v", list, r.Faults())
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"a":[1,{"b":null}]}`, "[\"\\ud800\"]", "\ufeff{}", `[[[[`, `{"a":1,}`, `1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, malformed := Parse(raw)
		if malformed != nil {
			if malformed.At < 0 || malformed.At > len(raw) {
				t.Fatalf("a fault at %d of %d bytes", malformed.At, len(raw))
			}
			return
		}
		var walk func(n Node, from int) int
		walk = func(n Node, from int) int {
			if n.At < from || n.At >= len(raw) {
				t.Fatalf("a value at %d, after %d, of %d bytes", n.At, from, len(raw))
			}
			last := n.At
			for _, m := range n.Members {
				if m.At <= last {
					t.Fatalf("a name at %d, after %d", m.At, last)
				}
				last = walk(m.Value, m.At)
			}
			for _, item := range n.Items {
				last = walk(item, last+1)
			}
			return last
		}
		walk(n, 0)
	})
}
