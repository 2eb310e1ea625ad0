package tickets

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// T13, T15: what was stored otherwise is listed, field by field; line ends and
// white space at the end are one stated form and no difference.
// Guarantee: TIX6
func TestCompare(t *testing.T) {
	t.Parallel()
	draft := Draft{Project: "web", Title: "T", Body: "a\nb", Severity: "high", Labels: []string{"bug", "p1"}, Evidence: []string{"007"}}
	stored := func(edit func(*Ticket)) Ticket {
		s := Ticket{Project: "web", Title: "T", Body: "a\nb", Severity: Some("high"), Labels: []string{"bug", "p1"}, Evidence: []string{"007"}}
		if edit != nil {
			edit(&s)
		}
		return s
	}
	for _, c := range []struct {
		name string
		edit func(*Ticket)
		want []connector.Change
	}{
		{"the same", nil, nil},
		{"other line ends", func(s *Ticket) { s.Body = "a\r\nb\r\n" }, nil},
		{"labels in another order, one twice", func(s *Ticket) { s.Labels = []string{"p1", "bug", "p1"} }, nil},
		{"body cut", func(s *Ticket) { s.Body = "a" }, []connector.Change{{Pointer: "/body", Sent: "a\nb", Stored: "a"}}},
		{"white space in front", func(s *Ticket) { s.Title = " T" }, []connector.Change{{Pointer: "/title", Sent: "T", Stored: " T"}}},
		{"a hidden character came in", func(s *Ticket) { s.Title = "T\u200B" }, []connector.Change{{Pointer: "/title", Sent: "T", Stored: "T\u200B"}}},
		{"labels dropped", func(s *Ticket) { s.Labels = nil }, []connector.Change{{Pointer: "/labels", Sent: "bug, p1", Stored: ""}}},
		{"a label dropped", func(s *Ticket) { s.Labels = []string{"bug"} }, []connector.Change{{Pointer: "/labels", Sent: "bug, p1", Stored: "bug"}}},
		{"a label added", func(s *Ticket) { s.Labels = append(s.Labels, "x") }, []connector.Change{{Pointer: "/labels", Sent: "bug, p1", Stored: "bug, p1, x"}}},
		{"severity not mentioned", func(s *Ticket) { s.Severity = Optional[string]{} }, []connector.Change{{Pointer: "/severity", Sent: "high", Stored: ""}}},
		{"severity null", func(s *Ticket) { s.Severity = Null[string]() }, []connector.Change{{Pointer: "/severity", Sent: "high", Stored: ""}}},
		{"severity replaced", func(s *Ticket) { s.Severity = Some("low") }, []connector.Change{{Pointer: "/severity", Sent: "high", Stored: "low"}}},
		{"evidence dropped", func(s *Ticket) { s.Evidence = nil }, []connector.Change{{Pointer: "/evidence", Sent: "007", Stored: ""}}},
		{"another project", func(s *Ticket) { s.Project = "Web" }, []connector.Change{{Pointer: "/project", Sent: "web", Stored: "Web"}}},
		{"several", func(s *Ticket) { s.Title, s.Labels = "t", nil }, []connector.Change{
			{Pointer: "/title", Sent: "T", Stored: "t"}, {Pointer: "/labels", Sent: "bug, p1", Stored: ""}}},
	} {
		if diff := cmp.Diff(c.want, compare(draft, stored(c.edit))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if c := compare(Draft{Severity: "low"}, Ticket{Severity: Some("low"), Labels: []string{}, Evidence: nil}); c != nil {
		t.Errorf("an empty draft and ticket differ in %v", c)
	}
}
