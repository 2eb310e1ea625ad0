package connector

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/drawbridge-dev/drawbridge/connector/internal/schema"
)

// An Operation is one tool of a connector. It is sealed: the free functions
// below are the only ways to make one, so a registry holds a plain slice.
type Operation struct {
	spec   Spec
	kind   opKind
	input  *schema.Schema
	output *schema.Schema
	faults []error

	read   func(context.Context, *Access, json.RawMessage) ([]byte, error)
	list   func(context.Context, *Access, json.RawMessage, Position) (rawPage, error)
	plan   func(context.Context, *Access, json.RawMessage) (Request, error)
	decode func(Response) (decoded, error)
	find   func(context.Context, *Access, OperationID, json.RawMessage) (decoded, Found, error)
	verify func(context.Context, *Access, decoded, json.RawMessage) ([]Change, error)
	dedupe Dedupe
	settle time.Duration
}

type opKind int

const (
	kindRead opKind = iota + 1
	kindList
	kindWrite
)

func newOperation[In, Out any](spec Spec, k opKind) Operation {
	o := Operation{spec: spec, kind: k}
	var err error
	var extend func(map[string]any)
	if k == kindList {
		extend = addPaging
	}
	if o.input, err = schema.For[In](spec.Input, extend); err != nil {
		o.faults = append(o.faults, fmt.Errorf("%s: input schema: %w", spec.Name, err))
	}
	if o.output, err = schema.For[Out](spec.Output, nil); err != nil {
		o.faults = append(o.faults, fmt.Errorf("%s: output schema: %w", spec.Name, err))
	}
	return o
}

// decoded is an output value together with its wire form and external id.
type decoded struct {
	value any
	data  []byte
	id    string
}

// Spec returns what the operation was described with.
func (o Operation) Spec() Spec { return o.spec }

// A Position is where in a provider's list a page starts.
type Position struct {
	Cursor   string // the provider's own, empty on the first page
	PageSize int    // 1..50
	seen     int
	walk     walk
}

// A Page is what a list handler returns. The framework seals Next; a handler
// can't hand out a raw position.
type Page[Item any] struct {
	Items []Item
	Next  string // empty: the provider says this was the last page
	// Total is what the provider says exists, nil if it doesn't. When fewer were
	// seen by the last page, the result says so instead of looking complete.
	Total *int
	// Fetched counts what the provider returned before filtering. Zero: len(Items).
	Fetched int
	Missing []Missing // known gaps, with reasons
}

type rawPage struct {
	items   []byte
	n       int
	next    string
	total   *int
	fetched int
	missing []Missing
}

// Found is the answer of a look-up for a write. The zero value claims nothing.
type Found int

const (
	CannotTell Found = iota
	FoundYes
	FoundNo // complete, authenticated, strongly consistent: it is not there
)

// Steps are the pure functions of a write. Everything that has an effect is the
// framework's: it approves, records, dispatches and settles.
type Steps[In, Out any] struct {
	// Plan turns the input into the one request of this write. It may read,
	// never write. The framework digests and stores what it returns; what is
	// sent later are those stored bytes. Plan is not asked again.
	Plan func(context.Context, *Access, In) (Request, error)
	// Decode reads the provider's 2xx answer. An answer it can't read is a
	// write whose result is unreadable, never a failed write.
	Decode func(Response) (Out, error)
	// ID extracts the provider's id of the created object. A 2xx answer
	// without an id proves nothing.
	ID func(Out) string
	// Find tells what became of a write whose answer was lost. Mandatory.
	Find func(context.Context, *Access, OperationID, In) (Out, Found, error)
	// Verify reads back and compares, field by field. Optional: without it the
	// strongest receipt is committed.
	Verify func(context.Context, *Access, Out, In) ([]Change, error)
	Dedupe Dedupe
	// Settle is how long after dispatch an absence may not be believed.
	Settle time.Duration
}

// Read makes an operation that returns one value.
func Read[In, Out any](spec Spec, handler func(context.Context, *Access, In) (Out, error)) Operation {
	o := newOperation[In, Out](spec, kindRead)
	if handler == nil {
		o.faults = append(o.faults, fmt.Errorf("%s has no handler", spec.Name))
		return o
	}
	o.read = func(ctx context.Context, a *Access, raw json.RawMessage) ([]byte, error) {
		in, err := decodeInput[In](raw)
		if err != nil {
			return nil, err
		}
		out, err := handler(ctx, a, in)
		if err != nil {
			return nil, err
		}
		return encodeOutput(out)
	}
	return o
}

// List makes an operation that returns pages. The framework adds page_size
// (1..50) and cursor (string or null) to the input, both required.
func List[In, Item any](spec Spec, handler func(context.Context, *Access, In, Position) (Page[Item], error)) Operation {
	o := newOperation[In, listOutput[Item]](spec, kindList)
	if handler == nil {
		o.faults = append(o.faults, fmt.Errorf("%s has no handler", spec.Name))
		return o
	}
	o.list = func(ctx context.Context, a *Access, raw json.RawMessage, p Position) (rawPage, error) {
		in, err := decodeInput[In](raw)
		if err != nil {
			return rawPage{}, err
		}
		page, err := handler(ctx, a, in, p)
		if err != nil {
			return rawPage{}, err
		}
		if page.Items == nil {
			page.Items = []Item{}
		}
		items, err := encodeOutput(listOutput[Item]{page.Items})
		if page.Fetched == 0 {
			page.Fetched = len(page.Items)
		}
		return rawPage{items, len(page.Items), page.Next, page.Total, page.Fetched, page.Missing}, err
	}
	return o
}

const maxPageSize = 50

func addPaging(doc map[string]any) {
	properties, _ := doc["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		doc["properties"] = properties
	}
	properties["page_size"] = map[string]any{"type": "integer", "minimum": 1, "maximum": maxPageSize,
		"description": "How many items to return at most."}
	properties["cursor"] = map[string]any{"type": []any{"string", "null"}, "minLength": 1, "maxLength": 4096,
		"description": "null for the first page, then next_cursor of the page before."}
	required, _ := doc["required"].([]any)
	doc["required"] = append(required, "page_size", "cursor")
}

type listOutput[Item any] struct {
	Items []Item `json:"items"`
}

// Write makes an operation with an effect.
func Write[In, Out any](spec Spec, steps Steps[In, Out]) Operation {
	o := newOperation[In, Out](spec, kindWrite)
	o.dedupe, o.settle = steps.Dedupe, steps.Settle
	missing := func(absent bool, format string) {
		if absent {
			o.faults = append(o.faults, fmt.Errorf(format, spec.Name))
		}
	}
	missing(steps.Plan == nil, "%s can't be sent: it has no Plan")
	missing(steps.Decode == nil, "%s can't be read back: it has no Decode")
	missing(steps.ID == nil, "%s can't be proven: it has no ID")
	missing(steps.Find == nil, "%s can't be settled: it has no Find")
	if len(o.faults) > 0 {
		return o
	}
	wrap := func(out Out) (decoded, error) {
		data, err := encodeOutput(out)
		return decoded{out, data, steps.ID(out)}, err
	}
	o.plan = func(ctx context.Context, a *Access, raw json.RawMessage) (Request, error) {
		in, err := decodeInput[In](raw)
		if err != nil {
			return Request{}, err
		}
		return steps.Plan(ctx, a, in)
	}
	o.decode = func(r Response) (decoded, error) {
		out, err := steps.Decode(r)
		d, encodeErr := wrap(out)
		if err == nil {
			err = encodeErr
		}
		return d, err
	}
	o.find = func(ctx context.Context, a *Access, id OperationID, raw json.RawMessage) (decoded, Found, error) {
		in, err := decodeInput[In](raw)
		if err != nil {
			return decoded{}, CannotTell, err
		}
		out, found, err := steps.Find(ctx, a, id, in)
		if err != nil || found != FoundYes {
			return decoded{}, found, err
		}
		d, err := wrap(out)
		return d, found, err
	}
	if steps.Verify != nil {
		o.verify = func(ctx context.Context, a *Access, d decoded, raw json.RawMessage) ([]Change, error) {
			in, err := decodeInput[In](raw)
			if err != nil {
				return nil, err
			}
			return steps.Verify(ctx, a, d.value.(Out), in)
		}
	}
	return o
}

// decodeInput runs after the closed schema has accepted raw. Names match
// exactly and duplicates are errors, unlike in encoding/json.
func decodeInput[In any](raw json.RawMessage) (In, error) {
	var in In
	if err := jsonv2.Unmarshal(raw, &in); err != nil {
		return in, &Error{Code: CodeInternal, Message: "the input type does not fit its schema", Err: err}
	}
	return in, nil
}

func encodeOutput(out any) ([]byte, error) {
	b, err := jsonv2.Marshal(out)
	if err != nil {
		return nil, &Error{Code: CodeInternal, Message: "the output could not be encoded", Err: err}
	}
	return b, nil
}
