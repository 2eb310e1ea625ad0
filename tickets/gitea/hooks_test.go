package gitea_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/gitea"
)

// pages stands for the transport and answers reads by path and page; the other
// services are there because a runtime asks for them.
type pages map[string]string

func (p pages) Do(_ context.Context, _ connector.Connection, class connector.Class, r connector.Request) (connector.Response, error) {
	body, ok := p[r.Path+" "+r.Query.Get("page")]
	if !ok || class != connector.ClassRead {
		return connector.Response{Status: http.StatusNotFound}, nil
	}
	return connector.Response{Status: http.StatusOK, Body: []byte(body)}, nil
}

func (pages) Resolve(_ context.Context, c connector.Caller, provider string, scopes []string) (connector.Connection, error) {
	return connector.Connection{ID: "c1", Tenant: c.Tenant, Principal: c.Principal, Provider: provider, Scopes: scopes, Resources: []string{"ana/a"}}, nil
}

func (pages) Current(context.Context, connector.Connection) error { return nil }

func (pages) Record(context.Context, connector.AuditRecord) error { return nil }

// All pages are read, whatever their size: what is behind the last one that was
// read would be made a second time.
func TestHooks(t *testing.T) {
	t.Parallel()
	hook := func(n int) string {
		return fmt.Sprintf(`{"id":%d,"type":"gitea","active":true,"config":{"url":"https://host/%d","content_type":"json"}}`, n, n)
	}
	const path = "/api/v1/repos/ana/a/hooks "
	for name, c := range map[string]struct {
		pages pages
		want  []tickets.Hook
		code  connector.Code
	}{
		"three pages": {pages{path + "1": "[" + hook(1) + "," + hook(2) + "]", path + "2": "[" + hook(3) + "]", path + "3": "[]"},
			[]tickets.Hook{{ID: "1", Project: "ana/a", Address: "https://host/1"}, {ID: "2", Project: "ana/a", Address: "https://host/2"}, {ID: "3", Project: "ana/a", Address: "https://host/3"}}, 0},
		"none":                 {pages{path + "1": "[]"}, []tickets.Hook{}, 0},
		"the second is null":   {pages{path + "1": "[" + hook(1) + "]", path + "2": "null"}, nil, connector.CodeProviderContract},
		"the second is gone":   {pages{path + "1": "[" + hook(1) + "]"}, nil, connector.CodeNotFound},
		"not an administrator": {pages{}, nil, connector.CodeNotFound},
	} {
		connectorOf, ok := tickets.NewHooks(gitea.Driver{})
		if !ok {
			t.Fatal("Gitea has no subscriptions")
		}
		r, err := connector.New(connector.Config{Connectors: []connector.Connector{connectorOf}, Policy: host.Local{}, Consent: host.Local{},
			Connections: c.pages, Transport: c.pages, Auditor: c.pages, Operations: struct{ connector.Operations }{}})
		if err != nil {
			t.Fatal(err)
		}
		out, result := connector.Do[map[string]string, struct{ Hooks []tickets.Hook }](t.Context(), r, connector.Caller{Tenant: "acme", Principal: "ana"},
			tickets.HooksTool, map[string]string{"project": "ana/a"})
		code := connector.Code(0)
		if result.Error != nil {
			code = result.Error.Code
		}
		if diff := cmp.Diff(c.want, out.Hooks); diff != "" || code != c.code {
			t.Errorf("%s: %v (-want +got):\n%s", name, code, diff)
		}
		for _, project := range []string{"", "ana/other"} {
			_, result := connector.Do[map[string]string, struct{ Hooks []tickets.Hook }](t.Context(), r, connector.Caller{Tenant: "acme", Principal: "ana"},
				tickets.HooksTool, map[string]string{"project": project})
			if result.Status != connector.StatusError {
				t.Errorf("project %q: %s", project, result.Status)
			}
		}
		r.Close()
	}
}

// An answer without a usable id is none.
func TestHookMade(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{`{"id":7,"config":{"url":"https://host/x"}}`: "7", `{"id":0}`: "", `{}`: "", `{"id":-1}`: "", `[]`: "", ``: "", `{"id":"7"}`: ""} {
		h, _ := gitea.Driver{}.HookMade(connector.Response{Body: []byte(body)})
		if h.ID != want {
			t.Errorf("%s: id %q", strings.TrimSpace(body), h.ID)
		}
	}
}
