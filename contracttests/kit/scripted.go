package kit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store"
)

// scripted is the runtime with the real ledger and cursors, and a provider whose
// answers are written down. Nothing is listened to or dialled.
type scripted struct {
	runtime *connector.Runtime
	ledger  *operations.Ledger
	db      *store.DB
	dir     string
	tools   []connector.Definition
}

var scriptedCaller = connector.Caller{Tenant: "one", Principal: "owner"}

func openScripted(ctx context.Context, c connector.Connector, s *script) (h *scripted, err error) {
	h = &scripted{tools: c.Definitions()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if h.dir, err = os.MkdirTemp("", "contract-fixed-"); err != nil {
		return h, err
	}
	secret, err := keys.Generate()
	if err != nil {
		return h, err
	}
	ring, err := keys.Parse(secret)
	if err != nil {
		return h, err
	}
	if h.db, err = store.Open(ctx, store.Config{URL: "sqlite:" + filepath.Join(h.dir, "fixed.db"), Migrations: []store.Migrations{operations.Migrations()}}); err != nil {
		return h, err
	}
	if h.ledger, err = operations.New(operations.Config{DB: h.db, Keys: ring}); err != nil {
		return h, err
	}
	codec, err := cursors.New(cursors.Config{Keys: ring})
	if err != nil {
		return h, err
	}
	h.runtime, err = connector.New(connector.Config{Connectors: []connector.Connector{c}, Policy: allowed{}, Consent: allowed{},
		Connections: s, Transport: s, Cursors: codec, Operations: h.ledger, Auditor: unread{}})
	return h, err
}

func (h *scripted) close() error {
	if h.runtime != nil {
		h.runtime.Close()
	}
	var errs []error
	if h.db != nil {
		errs = append(errs, h.db.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(h.dir))...)
}

// takes reports whether a tool has an argument.
func (h *scripted) takes(tool, argument string) bool {
	for _, d := range h.tools {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if d.Name == tool && json.Unmarshal(d.InputSchema, &schema) == nil {
			return schema.Properties[argument] != nil
		}
	}
	return false
}

// script is the transport and the connection of a case.
type script struct {
	scopes, resources []string

	mu      sync.Mutex
	answers []Answer // those still to be given
	seen    []fixedExchange
	missing int // requests that no answer was left for
	written connector.OperationID
}

var classNames = map[connector.Class]string{connector.ClassRead: "read", connector.ClassWrite: "write"}

// operationWord stands for the id of the case's write, which no two runs share.
const operationWord = "OPERATION"

// fixedTime is when every answer came.
var fixedTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (s *script) Do(_ context.Context, _ connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) == 0 {
		s.missing++
		return connector.Response{}, connector.Fail(connector.CodeUnavailable, "the case has no further answer")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if class == connector.ClassWrite {
		s.written = r.OperationID
	}
	if s.written != "" {
		a.Body = strings.ReplaceAll(a.Body, operationWord, string(s.written))
	}
	s.seen = append(s.seen, fixedExchange{Class: classNames[class], Method: r.Method, Path: r.Path, Query: r.Query.Encode(), ContentType: r.ContentType,
		KeyHeader: r.DedupeHeader, Body: document(r.Body), AnswerStatus: a.Status, Answer: document([]byte(a.Body))})
	header := a.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	wait, _ := strconv.Atoi(header.Get("Retry-After")) // a date would be another one in each run
	return connector.Response{Status: a.Status, Header: header, Body: []byte(a.Body), FetchedAt: fixedTime,
		RetryAfter: time.Duration(wait) * time.Second, Attempts: []connector.Attempt{{Status: a.Status}}}, nil
}

func (s *script) Resolve(_ context.Context, c connector.Caller, provider string, _ []string) (connector.Connection, error) {
	return connector.Connection{ID: "con-1", Tenant: c.Tenant, Principal: c.Principal, Provider: provider, Profile: provider,
		Account: connector.Account{Subject: "account-1", Login: "ana"}, Scopes: s.scopes, Resources: s.resources, AuthzVersion: 1}, nil
}

func (*script) Current(context.Context, connector.Connection) error { return nil }
