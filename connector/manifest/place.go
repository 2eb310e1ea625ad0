package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A Fault is one thing wrong with a manifest, and where. The errors of [Parse]
// hold one or more of them, in the order of the text.
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

// A node is a JSON value that remembers where in the text it begins.
type node struct {
	at      int
	kind    jsontext.Kind
	text    string // of strings and numbers
	members []member
	items   []node
}

// Members keep their order and their duplicates, which are the reader's to judge.
type member struct {
	at    int
	name  string
	value node
}

// text is a document on its way to nodes.
type text struct {
	raw []byte
	dec *jsontext.Decoder
}

// parse reads exactly one document.
func parse(raw []byte) (node, *Fault) {
	t := text{raw, jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))}
	n, err := t.value()
	if err != nil {
		return n, t.malformed(err)
	}
	behind := t.next()
	if _, err := t.dec.ReadToken(); err != io.EOF {
		return n, fault(raw, behind, "", "there is something behind the document")
	}
	return n, nil
}

func (t text) value() (node, error) {
	at := t.next()
	token, err := t.dec.ReadToken()
	if err != nil {
		return node{}, err
	}
	n := node{at: at, kind: token.Kind()}
	switch n.kind {
	case '"', '0':
		n.text = token.String()
	case '{':
		for t.dec.PeekKind() != '}' {
			at := t.next()
			name, err := t.dec.ReadToken()
			if err != nil {
				return n, err
			}
			m := member{at: at, name: name.String()} // before the next read overwrites it
			if m.value, err = t.value(); err != nil {
				return n, err
			}
			n.members = append(n.members, m)
		}
		_, err = t.dec.ReadToken()
	case '[':
		for t.dec.PeekKind() != ']' {
			item, err := t.value()
			if err != nil {
				return n, err
			}
			n.items = append(n.items, item)
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
	return fault(t.raw, at, "", problem)
}

// fault turns an offset into a line and a column.
func fault(raw []byte, at int, pointer, problem string) *Fault {
	before := raw[:min(at, len(raw))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return &Fault{
		Line:    bytes.Count(before, []byte{'\n'}) + 1,
		Column:  utf8.RuneCount(before[start:]) + 1,
		Pointer: pointer, Problem: problem,
	}
}
