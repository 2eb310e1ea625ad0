package profiles

import (
	"fmt"

	"github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"
)

// A Fault is one thing wrong with a profile file, and where. The errors of
// [Parse] and [Load] hold one or more, in the order of the text.
type Fault struct {
	Line, Column int    // from 1; columns count characters
	Pointer      string // RFC 6901; empty: the document
	Problem      string // never quotes a value of the document
}

// Error says where and what. The pointer is quoted, since its names come from
// the document.
func (f *Fault) Error() string {
	if f.Pointer == "" {
		return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Problem)
	}
	return fmt.Sprintf("line %d, column %d: %q %s", f.Line, f.Column, f.Pointer, f.Problem)
}

func fault(raw []byte, f strictjson.Fault) *Fault {
	line, column := strictjson.Locate(raw, f.At)
	return &Fault{line, column, f.Pointer, f.Problem}
}
