package senders

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/drawbridge-dev/drawbridge/tickets"
	driver "github.com/drawbridge-dev/drawbridge/tickets/gitea"
	"github.com/drawbridge-dev/drawbridge/webhooks/signature"
)

const ana, giteaSecret = "ana", "the secret of Gitea's webhook"

// A real Gitea delivers as JSON and as a form, verified and decoded by the driver
// into the ticket that changed. It signs the document and not the form around it.
//
// Guarantee: HOO1, HOO6
// Cases: W04, W06, W07, W13
func TestGitea(t *testing.T) {
	s := gitea.ForTest(t, gitea.Config{})
	ctx := t.Context()
	must(t, s.CreateUser(ctx, ana, "ana's password 1"))
	for kind, contentType := range map[string]string{"json": "application/json", "form": "application/x-www-form-urlencoded"} {
		t.Run(kind, func(t *testing.T) {
			repo, err := s.CreateRepo(ctx, ana, "desk-"+kind, true)
			must(t, err)
			r := listen(t)
			hook(t, s, repo, r.URL, kind, giteaSecret)
			c := connector.Connection{Resources: []string{repo}}
			next := func(wantEvent string, want ...tickets.Changed) delivery {
				t.Helper()
				d := <-r.arrived
				if got := d.header.Get("Content-Type"); got != contentType {
					t.Fatalf("sent as %q", got)
				}
				v, err := d.verify(t, "gitea", giteaSecret)
				if err != nil || v.DeliveryID == "" || v.IDSigned || v.EventType != wantEvent {
					t.Fatalf("%+v, %v", v, err)
				}
				changed, outside, err := tickets.Decode(driver.Driver{}, c, v.EventType, v.Payload)
				if diff := cmp.Diff(want, changed); diff != "" || err != nil || outside != 0 {
					t.Errorf("%d outside, %v (-want +got):\n%s", outside, err, diff)
				}
				// The same event, for a connection that may not touch the repository.
				if changed, outside, err := tickets.Decode(driver.Driver{}, connector.Connection{Resources: []string{"ana/other"}}, v.EventType, v.Payload); len(changed) != 0 || outside != 1 || err != nil {
					t.Errorf("outside the grant: %v, %d, %v", changed, outside, err)
				}
				return d
			}
			ticket := tickets.Changed{ID: repo + "#1", Project: repo}
			_, err = s.CreateIssue(ctx, ana, repo, gitea.NewIssue{Title: "a & b = 100 %; 🎉 + é", Body: "<b>\r\n\t\"x\"</b>"})
			must(t, err)
			d := next("issues", ticket)
			must(t, s.API(ctx, ana, "PATCH", "/repos/"+repo+"/issues/1", map[string]any{"state": "closed"}, nil))
			next("issues", ticket)
			must(t, s.API(ctx, ana, "POST", "/repos/"+repo+"/issues/1/comments", map[string]any{"body": "hello"}, nil))
			next("issue_comment", ticket)

			d.refusesAltered(t, "gitea", giteaSecret)
			if _, err := d.verify(t, "gitea", "the secret of somebody else"); err != signature.WrongSignature {
				t.Errorf("another secret: %v", err)
			}
			// Gitea also sends GitHub's headers, but over a form it signs other bytes.
			want := map[string]error{"json": nil, "form": signature.WrongSignature}[kind]
			if _, err := d.verify(t, "github", giteaSecret); err != want {
				t.Errorf("read as GitHub's: %v, want %v", err, want)
			}
			must(t, s.API(ctx, ana, "DELETE", "/repos/"+repo+"/issues/1", nil, nil))
			ticket.Removes = true
			next("issues", ticket)
		})
	}
	t.Run("without a secret", func(t *testing.T) {
		repo, err := s.CreateRepo(ctx, ana, "desk-open", true)
		must(t, err)
		r := listen(t)
		hook(t, s, repo, r.URL, "json", "")
		_, err = s.CreateIssue(ctx, ana, repo, gitea.NewIssue{Title: "x"})
		must(t, err)
		// The headers come, and are empty.
		d := <-r.arrived
		if got, there := d.header["X-Gitea-Signature"]; !there || got[0] != "" {
			t.Errorf("signature header %q", got)
		}
		if _, err := d.verify(t, "gitea", giteaSecret); err != signature.MalformedSig {
			t.Errorf("unsigned: %v", err)
		}
	})
}

// hook subscribes: to JSON with the very request that the driver plans, to forms
// by hand.
func hook(t *testing.T, s *gitea.Server, repo, target, contentType, secret string) {
	t.Helper()
	planned, err := driver.Driver{}.PlanHook(t.Context(), nil, tickets.HookDraft{Project: repo, Address: target, SigningKey: secret})
	must(t, err)
	var body map[string]any
	must(t, json.Unmarshal(planned.Body, &body))
	body["config"].(map[string]any)["content_type"] = contentType
	var answer json.RawMessage
	must(t, s.API(t.Context(), ana, planned.Method, strings.TrimPrefix(planned.Path, "/api/v1"), body, &answer))
	made, err := driver.Driver{}.HookMade(connector.Response{Body: answer})
	if err != nil || made.ID == "" || made.Address != target || made.SigningKey != "" {
		t.Fatalf("made %+v, %v", made, err)
	}
}
