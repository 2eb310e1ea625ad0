package doctor

import (
	"fmt"
	"io"
	"strings"
)

// A Status is how one item stands. They are in the order of how bad they are.
type Status string

const (
	OK      Status = "ok"
	Warning Status = "warning" // works, and will not or should not for ever
	Refused Status = "refused" // by our own rules
	Failed  Status = "failed"
)

// An Item is one finding: one sentence, and what to do next if anything.
type Item struct {
	Step   string `json:"step"`            // profile, environment, resolve, address, connect, tls, certificate, http, clock, limits
	Where  string `json:"where,omitempty"` // the origin, or empty for the whole profile
	Status Status `json:"status"`
	Text   string `json:"text"`
	Next   string `json:"next,omitempty"`
}

// A Report is everything that was found about one profile, in the order in
// which it was looked at.
type Report struct {
	Profile string `json:"profile"`
	Items   []Item `json:"items"`
}

// Status is that of the worst item.
func (r Report) Status() Status {
	worst := OK
	rank := map[Status]int{OK: 0, Warning: 1, Refused: 2, Failed: 3}
	for _, i := range r.Items {
		if rank[i.Status] > rank[worst] {
			worst = i.Status
		}
	}
	return worst
}

// Usable reports whether a call can be expected to get through: nothing that it
// needs was refused or failed. An address among several that is refused is a
// warning, because a dial goes on to the next one.
func (r Report) Usable() bool {
	s := r.Status()
	return s == OK || s == Warning
}

// WriteText prints the report for a terminal, without colours.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", clean(r.Profile), r.Status())
	where := ""
	for _, i := range r.Items {
		if i.Where != where {
			where = i.Where
			if where != "" {
				fmt.Fprintf(&b, "  %s\n", where)
			}
		}
		indent := "  "
		if where != "" {
			indent = "    "
		}
		fmt.Fprintf(&b, "%s%-8s %-12s %s\n", indent, i.Status, i.Step, i.Text)
		if i.Next != "" {
			fmt.Fprintf(&b, "%s%-21s next: %s\n", indent, "", i.Next)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// clean makes text of a certificate or a name fit for a terminal.
func clean(s string) string {
	b := make([]byte, 0, min(len(s), 100))
	for i := 0; i < len(s) && len(b) < 100; i++ {
		if s[i] >= ' ' && s[i] < 0x7f {
			b = append(b, s[i])
		}
	}
	return string(b)
}
