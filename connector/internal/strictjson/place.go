package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Node is a JSON value that remembers where in the text it begins.
type Node struct {
	At      int           // offset in bytes
	Kind    jsontext.Kind // 0 of the zero Node: there is no value
	Text    string        // of strings and numbers
	Members []Member
	Items   []Node
}

// Members keep their order and their duplicates, which are the reader's to judge.
type Member struct {
	At    int
	Name  string
	Value Node
}

// Member finds the first member of that name.
func (n Node) Member(name string) (Node, bool) {
	for _, m := range n.Members {
		if m.Name == name {
			return m.Value, true
		}
	}
	return Node{}, false
}

// A PlacedFault is a fault as people see it. Packages that read a file export it
// under a name of their own.
type PlacedFault struct {
	Line, Column int    // from 1; columns count characters
	Pointer      string // RFC 6901; empty: the document
	Problem      string // never quotes a value of the document
}

// Error says where and what. The pointer is quoted, since its names come from
// the document.
func (f *PlacedFault) Error() string {
	if f.Pointer == "" {
		return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Problem)
	}
	return fmt.Sprintf("line %d, column %d: %q %s", f.Line, f.Column, f.Pointer, f.Problem)
}

// Placed finds the line and column of a fault.
func Placed(raw []byte, f Fault) *PlacedFault {
	line, column := Locate(raw, f.At)
	return &PlacedFault{line, column, f.Pointer, f.Problem}
}

// A Fault is one thing wrong with a text.
type Fault struct {
	At      int
	Pointer string // RFC 6901; empty: the document
	Problem string // never quotes a value of the document
}

// text is a document on its way to nodes.
type text struct {
	raw []byte
	dec *jsontext.Decoder
}

// Parse reads exactly one document. Its fault is the first place that isn't
// JSON: nothing behind it can be trusted to mean anything.
func Parse(raw []byte) (Node, *Fault) {
	t := text{raw, jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))}
	n, err := t.value()
	if err != nil {
		return n, t.malformed(err)
	}
	behind := t.next()
	if _, err := t.dec.ReadToken(); err != io.EOF {
		return n, &Fault{At: behind, Problem: "there is something behind the document"}
	}
	return n, nil
}

func (t text) value() (Node, error) {
	at := t.next()
	token, err := t.dec.ReadToken()
	if err != nil {
		return Node{}, err
	}
	n := Node{At: at, Kind: token.Kind()}
	switch n.Kind {
	case '"', '0':
		n.Text = token.String()
	case '{':
		for t.dec.PeekKind() != '}' {
			at := t.next()
			name, err := t.dec.ReadToken()
			if err != nil {
				return n, err
			}
			m := Member{At: at, Name: name.String()} // before the next read overwrites it
			if m.Value, err = t.value(); err != nil {
				return n, err
			}
			n.Members = append(n.Members, m)
		}
		_, err = t.dec.ReadToken()
	case '[':
		for t.dec.PeekKind() != ']' {
			item, err := t.value()
			if err != nil {
				return n, err
			}
			n.Items = append(n.Items, item)
		}
		_, err = t.dec.ReadToken()
	}
	return n, err
}

// next is where the next token begins: behind what separates it from the last.
func (t text) next() int {
	at := int(t.dec.InputOffset())
	for at < len(t.raw) && bytes.IndexByte([]byte(" \t\r\n,:"), t.raw[at]) >= 0 {
		at++
	}
	return at
}

func (t text) malformed(err error) *Fault {
	at, problem := len(t.raw), "the document ends too early"
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) {
		at, problem = int(syntax.ByteOffset), "this is not JSON"
	}
	return &Fault{At: at, Problem: problem}
}

// Locate turns an offset into a line and a column, from 1. Columns count
// characters.
func Locate(raw []byte, at int) (line, column int) {
	before := raw[:min(at, len(raw))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[start:]) + 1
}
