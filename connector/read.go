package connector

import (
	"context"
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func (x *execution) read(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, x.r.c.ReadTimeout)
	defer cancel()
	var data []byte
	err := guard(func() (err error) {
		data, err = x.tool.op.read(ctx, x.access, x.call.Arguments)
		return err
	})
	x.mark("handler")
	if err != nil {
		return Result{}, err
	}
	if err := x.release(ctx, data); err != nil {
		return Result{}, err
	}
	result := x.result(StatusSuccess)
	result.Data, result.Summary = data, x.tool.op.spec.Title
	return covered(result), nil
}

func (x *execution) list(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, x.r.c.ReadTimeout)
	defer cancel()
	position, binding, err := x.position()
	if err != nil {
		return Result{}, err
	}
	x.mark("cursor")
	var page rawPage
	err = guard(func() (err error) {
		page, err = x.tool.op.list(ctx, x.access, x.call.Arguments, position)
		return err
	})
	x.mark("handler")
	if err != nil {
		return Result{}, err
	}
	if err := x.release(ctx, page.items); err != nil {
		return Result{}, err
	}
	seen := position.seen + page.fetched
	// A provider that comes back to a position would be walked for ever.
	walk, stuck := position.walk.step(page.next)
	if page.next != "" && (stuck || page.next == position.Cursor) {
		page.missing = append(page.missing, Missing{What: "items", Reason: "cursor_stuck"})
		page.next = ""
	}
	if page.next == "" && page.total != nil && *page.total > seen {
		page.missing = append(page.missing, Missing{What: "items", Reason: "provider_inconsistent", Count: *page.total - seen})
	}
	result := x.result(StatusSuccess)
	result.Data = page.items
	result.Coverage.Missing = append(result.Coverage.Missing, page.missing...)
	result = covered(result)
	result.Summary = fmt.Sprintf("%d items", page.n)
	switch {
	case page.next != "":
		cursor, err := x.seal(binding, sealedPosition{page.next, seen, walk})
		if err != nil {
			return Result{}, err
		}
		result.NextCursor = &cursor
		result.Coverage = Coverage{Missing: append(result.Coverage.Missing, Missing{What: "items", Reason: "more_pages"})}
		result.Summary += ", and more behind next_cursor"
	case page.n == 0 && position.seen == 0 && result.Status == StatusSuccess:
		result.Status = StatusEmpty
		result.Summary = "nothing matched"
		if page.fetched > 0 {
			result.Summary = "everything that matched was filtered out"
		}
	default:
		result.Summary += ", the last page"
	}
	return result, nil
}

// release is the last gate before data leaves: the output schema (which, being
// closed, is also the output filter), the size limit, and the question whether
// the connection is still what it was when the call began.
func (x *execution) release(ctx context.Context, data []byte) error {
	if len(data) > x.r.c.MaxResultBytes {
		return Fail(CodeTooLarge, "the result has %d bytes, over the limit of %d; ask for less", len(data), x.r.c.MaxResultBytes)
	}
	if err := x.tool.op.output.Conforms(data); err != nil {
		return &Error{Code: CodeProviderContract, Message: "the result does not fit the tool's output schema", Err: err}
	}
	x.mark("output")
	err := x.r.c.Connections.Current(ctx, x.conn)
	x.mark("current")
	return err
}

// covered derives Complete and the status from the known gaps.
func covered(r Result) Result {
	r.Coverage.Complete = len(r.Coverage.Missing) == 0
	for _, m := range r.Coverage.Missing {
		// What the caller may not see is a boundary, not a failure to look.
		if m.Reason != "excluded" && m.Reason != "outside_grant" {
			r.Status = StatusPartial
		}
	}
	return r
}

type sealedPosition struct {
	Cursor string `json:"c"`
	Seen   int    `json:"s"`
	walk
}

// walk finds cycles of any length with one remembered position (Brent's
// algorithm): the mark moves up whenever the distance from it has doubled, so
// that it ends up inside the cycle and is met again.
type walk struct {
	Mark  string `json:"m,omitempty"` // digest of the remembered position
	Steps int    `json:"n,omitempty"` // since the mark
	Until int    `json:"u,omitempty"` // when the mark moves
}

func (w walk) step(next string) (walk, bool) {
	here := digestBytes([]byte(next))[:16]
	if here == w.Mark {
		return w, true
	}
	if w.Steps++; w.Steps >= w.Until {
		w = walk{here, 0, max(1, 2*w.Until)}
	}
	return w, false
}

// position opens the caller's cursor under everything it must be bound to.
func (x *execution) position() (Position, CursorBinding, error) {
	var paging struct {
		PageSize int     `json:"page_size"`
		Cursor   *string `json:"cursor"`
	}
	if err := jsonv2.Unmarshal(x.call.Arguments, &paging); err != nil {
		return Position{}, CursorBinding{}, &Error{Code: CodeInternal, Err: err}
	}
	query, err := queryDigest(x.call.Arguments)
	if err != nil {
		return Position{}, CursorBinding{}, &Error{Code: CodeInternal, Err: err}
	}
	binding := CursorBinding{
		Connector: x.tool.connector.ID, Version: x.tool.connector.Version, Operation: x.tool.op.spec.Name,
		Tenant: x.conn.Tenant, Principal: x.conn.Principal, Connection: x.conn.ID,
		Resources: x.conn.Resources, Query: query, PageSize: paging.PageSize, AuthzVersion: x.conn.AuthzVersion,
	}
	p := Position{PageSize: paging.PageSize}
	if paging.Cursor == nil {
		return p, binding, nil
	}
	raw, err := x.r.c.Cursors.Open(binding, *paging.Cursor)
	if err != nil {
		return p, binding, err
	}
	var sealed sealedPosition
	if err := json.Unmarshal(raw, &sealed); err != nil || sealed.Cursor == "" {
		return p, binding, &Error{Code: CodeCursorInvalid}
	}
	p.Cursor, p.seen, p.walk = sealed.Cursor, sealed.Seen, sealed.walk
	return p, binding, nil
}

func (x *execution) seal(b CursorBinding, p sealedPosition) (string, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	cursor, err := x.r.c.Cursors.Seal(b, raw)
	if err != nil {
		return "", &Error{Code: CodeInternal, Message: "the page position could not be sealed", Err: err}
	}
	return cursor, nil
}

// queryDigest fingerprints the question: all arguments but the position.
func queryDigest(arguments []byte) (string, error) {
	var all map[string]jsontext.Value
	if err := jsonv2.Unmarshal(arguments, &all); err != nil {
		return "", err
	}
	delete(all, "cursor")
	delete(all, "page_size") // bound beside it, as a number
	raw, err := jsonv2.Marshal(all)
	if err != nil {
		return "", err
	}
	return digestJSON(raw)
}
