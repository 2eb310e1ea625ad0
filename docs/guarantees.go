// Package docs carries the documents that the program itself shows.
package docs

import (
	_ "embed"
	"strings"
)

//go:embed guarantees.md
var guarantees string

// A Guarantee is one row of the list of guarantees.
type Guarantee struct {
	ID         string   `json:"id"`
	Promise    string   `json:"promise"`
	Tests      []string `json:"tests"`       // folders
	NotCovered string   `json:"not_covered"` // empty: nothing is known to be left out
}

// Guarantees reads the list. A test holds it to what the tests name.
func Guarantees() []Guarantee {
	var all []Guarantee
	for line := range strings.Lines(guarantees) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "-") || strings.TrimSpace(cells[0]) == "id" {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, Guarantee{cells[0], cells[1], strings.Split(cells[2], ", "), cells[3]})
	}
	return all
}
