package surface

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// A Step is how far a version moves, in the words of semver.org 2.0.0.
type Step int

const (
	Patch Step = iota + 1
	Minor
	Major
)

func (s Step) String() string {
	if s < Patch || s > Major {
		return "none"
	}
	return [...]string{"patch", "minor", "major"}[s-1]
}

type version struct {
	numbers [3]uint64
	pre     string
}

// parseVersion reads what connector.Lint and manifest.Parse let through. Build
// metadata says nothing about order (section 10).
func parseVersion(text string) (v version, err error) {
	text, _, _ = strings.Cut(text, "+")
	text, v.pre, _ = strings.Cut(text, "-")
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return v, fmt.Errorf("%q is not a semantic version", text)
	}
	for i, part := range parts {
		if v.numbers[i], err = strconv.ParseUint(part, 10, 64); err != nil {
			return v, fmt.Errorf("%q is not a semantic version", text)
		}
	}
	return v, nil
}

// compare is precedence, section 11.
func (v version) compare(w version) int {
	for i := range v.numbers {
		if c := cmp.Compare(v.numbers[i], w.numbers[i]); c != 0 {
			return c
		}
	}
	switch {
	case v.pre == w.pre:
		return 0
	case v.pre == "":
		return 1
	case w.pre == "":
		return -1
	}
	a, b := strings.Split(v.pre, "."), strings.Split(w.pre, ".")
	for i := range min(len(a), len(b)) {
		if c := compareIdentifier(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareIdentifier(a, b string) int {
	n, errA := strconv.ParseUint(a, 10, 64)
	m, errB := strconv.ParseUint(b, 10, 64)
	switch {
	case errA == nil && errB == nil:
		return cmp.Compare(n, m)
	case errA == nil:
		return -1 // numbers come before words
	case errB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}

// to is the step from v to a later w. A step from a pre-release to anything
// later is a major one: pre-releases promise nothing (section 9). While the
// first number is 0, the second stands for it, as package managers read it.
func (v version) to(w version) Step {
	switch {
	case v.pre != "" || v.numbers[0] != w.numbers[0]:
		return Major
	case v.numbers[1] != w.numbers[1]:
		if v.numbers[0] == 0 {
			return Major
		}
		return Minor
	case v.numbers[0] == 0 && v.numbers[2] != w.numbers[2]:
		return Minor
	}
	return Patch
}
