package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// UpdateVariable, with any value, makes a run write the files of Subject.Fixed in
// place of comparing them, and leave out the checks that need a provider. It is
// no flag, because a package that the kit is used in may have a flag of that name,
// and Go panics at the second.
const UpdateVariable = "DRAWBRIDGE_UPDATE"

// A Case is one call with the answers of the provider to it, which are fixed. What
// the connector asks for and what it returns is kept in a file below
// Subject.FixedDir, so that every change of either is seen in a review.
type Case struct {
	Name string // of the file, which is lower case with hyphens
	// Tool is the operation. Empty: the connector's Identify.
	Tool string
	// Arguments are its input. A list needs no page_size and no cursor: its
	// pages, of two, are turned until there is no next one.
	Arguments any
	// Resources are what the connection is limited to. Nil: nothing.
	Resources []string
	// Answers are given in this order. A case that asks for more or for fewer fails.
	Answers []Answer
}

// An Answer is what a provider said once, as it was recorded.
type Answer struct {
	Status int // 0: 200
	Header http.Header
	// Body may have the word OPERATION, which stands for the id of the write.
	Body string
}

const fixedDir = "testdata/contract"

// fixedFiles compares each case with its file.
func fixedFiles(t *trial) {
	cases := t.subject.Fixed
	if len(cases) == 0 {
		t.notClaimed("the subject has no fixed cases")
	}
	dir := t.subject.FixedDir
	if dir == "" {
		dir = fixedDir
	}
	files := []string{}
	for _, c := range cases {
		name := slug(c.Name) + ".json"
		if name == ".json" || slices.Contains(files, name) {
			t.errorf("the case %q needs a name of its own", c.Name)
			continue
		}
		files = append(files, name)
		got, err := t.playCase(c)
		if err != nil {
			t.errorf("%s: %v", c.Name, err)
			continue
		}
		t.compareFile(filepath.Join(dir, name), got)
	}
	for _, d := range t.subject.Connector.Definitions() {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Tool == d.Name }) {
			t.errorf("%s has no fixed case", d.Name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.errorf("%v", err)
	}
	for _, e := range entries {
		if !slices.Contains(files, e.Name()) {
			t.errorf("%s belongs to no case", filepath.Join(dir, e.Name()))
		}
	}
}

func updating() bool { return os.Getenv(UpdateVariable) != "" }

func (t *trial) compareFile(path string, got []byte) {
	want, err := os.ReadFile(path)
	switch {
	case updating():
		if !bytes.Equal(want, got) {
			t.must(os.MkdirAll(filepath.Dir(path), 0o755))
			t.must(os.WriteFile(path, got, 0o644))
		}
	case errors.Is(err, fs.ErrNotExist):
		t.errorf("there is no %s; write it with %s=1 go test, and read it", path, UpdateVariable)
	case err != nil:
		t.errorf("%v", err)
	case !bytes.Equal(want, got):
		t.errorf("%s is not what the connector does now (- file, + now); if it is meant, %s=1 go test writes it:\n%s",
			path, UpdateVariable, difference(string(want), string(got)))
	}
}

// difference shows the lines between the common beginning and the common end,
// with one line around them.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	first := 0
	for first < min(len(a), len(b)) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < min(len(a), len(b))-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	var out strings.Builder
	show := func(sign string, lines []string) {
		const most = 20
		for i, line := range lines {
			if i == most {
				fmt.Fprintf(&out, "%s ... %d more\n", sign, len(lines)-most)
				return
			}
			fmt.Fprintf(&out, "%s %s\n", sign, line)
		}
	}
	show(" ", a[max(0, first-1):first])
	show("-", a[first:len(a)-last])
	show("+", b[first:len(b)-last])
	show(" ", a[len(a)-last:min(len(a), len(a)-last+1)])
	return strings.TrimRight(out.String(), "\n")
}

// fixedExchange is one request of the connector and what it was told.
type fixedExchange struct {
	Class        string          `json:"class"`
	Method       string          `json:"method"`
	Path         string          `json:"path"`
	Query        string          `json:"query,omitempty"`
	ContentType  string          `json:"content_type,omitempty"`
	KeyHeader    string          `json:"idempotency_header,omitempty"`
	Body         json.RawMessage `json:"body,omitempty"`
	AnswerStatus int             `json:"answer_status"`
	Answer       json.RawMessage `json:"answer,omitempty"`
}

// fixedResult is what a caller was told, without what no two runs share.
type fixedResult struct {
	Status   connector.Status       `json:"status"`
	Summary  string                 `json:"summary,omitempty"`
	Data     json.RawMessage        `json:"data,omitempty"`
	Coverage connector.Coverage     `json:"coverage"`
	Effect   connector.Disposition  `json:"effect"`
	Error    *connector.ErrorReport `json:"error,omitempty"`
	NextPage bool                   `json:"next_page,omitempty"`
	Made     string                 `json:"made,omitempty"`
	Differs  []connector.Change     `json:"differs,omitempty"` // what was stored from what was sent
	Shown    []string               `json:"shown_to_approver,omitempty"`
}

type fixedFile struct {
	Case      string          `json:"case"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Exchanges []fixedExchange `json:"exchanges"`
	Results   []fixedResult   `json:"results,omitempty"`
	Identity  any             `json:"identity,omitempty"`
}

// playCase runs a case in a runtime whose provider is the case.
func (t *trial) playCase(c Case) (text []byte, err error) {
	s := &script{answers: c.Answers, scopes: t.subject.Connector.Auth.Scopes, resources: c.Resources}
	h, err := openScripted(t.ctx, t.subject.Connector, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	f := fixedFile{Case: c.Name, Tool: c.Tool}
	var secret []string // what differs from run to run
	if c.Tool == "" {
		conn, _ := s.Resolve(t.ctx, scriptedCaller, t.subject.Connector.Provider, s.scopes)
		id, err := h.runtime.Identify(t.ctx, conn)
		if f.Identity = id; err != nil {
			f.Identity = map[string]any{"error": connector.AsError(err).Code}
		}
	} else {
		f.Arguments = jsonOf(c.Arguments)
		if f.Results, secret, err = h.walkCase(t.ctx, c); err != nil {
			return nil, err
		}
	}
	if s.missing > 0 || len(s.answers) > 0 {
		return nil, fmt.Errorf("the connector asked %d times; the case has %d answers too many and %d too few", len(s.seen)+s.missing, len(s.answers), s.missing)
	}
	if f.Exchanges = s.seen; f.Exchanges == nil {
		f.Exchanges = []fixedExchange{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	out := b.String()
	for _, id := range secret {
		out = strings.ReplaceAll(out, id, operationWord)
	}
	return []byte(out), nil
}

// walkCase calls the tool: a write is approved and called again, a list is walked.
func (h *scripted) walkCase(ctx context.Context, c Case) (results []fixedResult, operations []string, err error) {
	arguments := map[string]json.RawMessage{}
	if err := json.Unmarshal(jsonOf(c.Arguments), &arguments); err != nil {
		return nil, nil, errors.New("the arguments are no JSON object")
	}
	if h.takes(c.Tool, "cursor") {
		if arguments["page_size"] == nil {
			arguments["page_size"] = json.RawMessage("2")
		}
		arguments["cursor"] = json.RawMessage("null")
	}
	for range walkLimit {
		r := h.runtime.Execute(ctx, scriptedCaller, connector.Call{Tool: c.Tool, Arguments: jsonOf(arguments)})
		results = append(results, fixedOf(r))
		switch {
		case r.Pending != nil:
			approval, err := h.ledger.Approve(ctx, scriptedCaller.Tenant, string(r.Pending.Approval), "maria")
			if err != nil {
				return nil, nil, err
			}
			operations = append(operations, string(approval.Operation))
		case r.NextCursor != nil:
			arguments["cursor"] = jsonOf(r.NextCursor)
		default:
			return results, operations, nil
		}
	}
	return nil, nil, errors.New("it has more pages than a case can have")
}

func fixedOf(r connector.Result) fixedResult {
	f := fixedResult{Status: r.Status, Summary: r.Summary, Data: r.Data, Coverage: r.Coverage, Effect: r.Effect.Disposition, NextPage: r.NextCursor != nil}
	if r.Error != nil {
		e := *r.Error
		e.Approval, e.Correlation = "", ""
		f.Error = &e
	}
	if r.Receipt != nil {
		f.Made, f.Differs = r.Receipt.ExternalID(), r.Receipt.Differences()
	}
	if r.Pending != nil {
		f.Shown = append([]string{r.Pending.Summary}, r.Pending.Notes...)
	}
	return f
}

// document is a body as it stands in the file: JSON as JSON, anything else as text.
func document(body []byte) json.RawMessage {
	switch {
	case len(body) == 0:
		return nil
	case json.Valid(body):
		return body
	}
	return jsonOf(string(body))
}
