package browser

import (
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

var draft = tickets.Draft{Project: "orders", Title: "Checkout times out since the last release", Severity: "high",
	Body: "Three customers wrote within an hour.\nThe gateway answers after 31 s.", Labels: []string{"bug"}, Evidence: []string{"007"}}

// Guarantee: OPS2
// Guarantee: CRE1
func TestConnectWithoutScript(t *testing.T) {
	s, org := sandboxHouse(t)
	w := s.enter(alice)
	w.withoutScript()
	w.open(s.base)
	w.reads("Nothing waits for you", "No account is connected yet")
	w.press("main a.button")
	w.press("main a")
	w.reads("You are alice of acme", "to create the tickets that you approve", "drawbridge connect --provider sandbox")
	w.picture("connect")
	w.press("main button")
	w.await(`form[data-form=login]`)
	w.picture("provider")
	atSandbox(w, org, "alice")
	w.await(".notice.good")
	w.reads("alice at Acme is connected", "tickets:write", "orders, web")
	if at := w.at(); strings.Contains(at, "code=") || strings.Contains(at, "state=") {
		t.Errorf("the address holds the answer: %s", at)
	}
	w.picture("connected")
	w.open(s.base + "/connections")
	w.reads("alice at Acme", "works")
}

// Guarantee: CRE1
func TestT1C42ForwardedConnectLink(t *testing.T) {
	s, org := sandboxHouse(t)
	link, err := s.console.ConnectLink(t.Context(), alice, "sandbox", nil)
	if err != nil {
		t.Fatal(err)
	}
	mallory := s.enter(connector.Caller{Tenant: "acme", Principal: "mallory"})
	mallory.open(link)
	mallory.reads("This link was made for another person", "Nothing was connected")
	if org.Hits("GET /oauth/authorize") != 0 {
		t.Error("somebody was sent to the provider")
	}
	mallory.picture("forwarded")

	// alice begins; the address with the state reaches mallory, who finishes it.
	w := s.enter(alice)
	w.open(link)
	w.reads("You are alice of acme")
	w.press("main button")
	w.await(`form[data-form=login]`)
	mallory.open(w.at())
	atSandbox(mallory, org, "bob")
	mallory.await("[role=alert]")
	mallory.reads("This sign-in was not started in this browser")
	// The state was in the wrong hands, so it is dead for alice, too; her link is not.
	atSandbox(w, org, "alice")
	w.await("[role=alert]")
	w.reads("start again")
	w.open(link)
	w.press("main button")
	w.await(`form[data-form=consent]`)
	w.press("button[value=allow]")
	w.await(".notice.good")
	for _, who := range []connector.Caller{alice, {Tenant: "acme", Principal: "mallory"}} {
		views, err := s.host.Credentials.List(t.Context(), who)
		if want := map[connector.PrincipalID]int{"alice": 1}[who.Principal]; err != nil || len(views) != want {
			t.Errorf("%s has %d connections (%v), want %d", who.Principal, len(views), err, want)
		}
	}
}

// Guarantee: TIX4
// Guarantee: OPS2
func TestApproveWithTheKeyboardAlone(t *testing.T) {
	s, org := sandboxHouse(t)
	w := s.enter(alice)
	connected(w, s, org)
	address := s.propose(draft)
	w.open(s.base)
	w.tabTo("A Skip to the content")
	w.tabTo("A " + w.ask(`document.querySelector("main li a").innerText`))
	w.enter()
	if w.at() != address {
		t.Fatalf("the link leads to %s, want %s", w.at(), address)
	}
	w.reads("waits for you", draft.Title, "The gateway answers after 31 s.", "Exactly this is sent, once", "What the provider does by itself", "007")
	w.picture("approval")
	w.tabTo("BUTTON Approve")
	w.enter()
	w.reads("approved; the next run of the same call sends it, once", "decided by alice")
	if n := len(org.Ledger()); n != 0 {
		t.Fatalf("%d writes before the call, want none", n)
	}
	if r := s.create(draft); r.Status != connector.StatusSuccess {
		t.Fatalf("the call answered %s %v", r.Status, r.Error)
	}
	if n := org.Count(draft.Title); n != 1 || len(org.Ledger()) != 1 {
		t.Errorf("the provider holds %d tickets by %d writes, want 1 by 1", n, len(org.Ledger()))
	}
	w.open(address)
	w.reads("approved and used")
	w.press(`a[href^="/operations/"] code`)
	w.reads("done", "verified: read back and compared")
	w.picture("operation")
}

// Guarantee: TIX4
func TestDenyWithTheKeyboardAlone(t *testing.T) {
	s, org := sandboxHouse(t)
	w := s.enter(alice)
	connected(w, s, org)
	address := s.propose(draft)
	w.open(address)
	w.tabTo("INPUT reason")
	w.write("#reason", "the wrong project")
	w.enter() // in the reason: it must deny, not approve
	w.reads("denied, decided by alice", "Reason: the wrong project")
	if r := s.create(draft); r.Status == connector.StatusSuccess || len(org.Ledger()) != 0 {
		t.Errorf("the call answered %s with %d writes", r.Status, len(org.Ledger()))
	}
}

// Guarantee: CRE8
func TestDisconnectShowsItsSteps(t *testing.T) {
	s, org := sandboxHouse(t)
	w := s.enter(alice)
	connected(w, s, org)
	w.press(`main a[href^="/connections/"]`)
	w.press(`main a[href$="/disconnect"]`)
	w.reads("nothing is read or written with this account any more")
	w.press("main button")
	w.await("ol.steps")
	w.reads("Stopped here: done", "Refresh token revoked: done", "Did the provider confirm it all? yes")
	w.picture("disconnected")
	if org.OAuthStats().RevocationRequests == 0 {
		t.Error("the provider saw no revocation")
	}
}

// Guarantee: OPS2
func TestHostileTextIsOnlyText(t *testing.T) {
	s, org := sandboxHouse(t)
	w := s.enter(alice)
	connected(w, s, org)
	d := draft
	d.Title = "</bdi><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
	d.Body = "pay \u202e001\u202c now\u200b<form action=//evil.example><button>Approve</button></form><style>body{display:none}</style>"
	w.open(s.propose(d))
	w.reads("<script>document.title='owned'</script>", "⟨U+202E⟩001⟨U+202C⟩ now⟨U+200B⟩", "characters do not show.", "<style>body{display:none}</style>")
	if title := w.ask("document.title"); title != "Approve or deny? - Drawbridge" {
		t.Errorf("the title is %q", title)
	}
	if got := w.ask(`[...document.querySelectorAll("button")].map(b => b.innerText).join()`); got != "Sign out,Approve,Deny" {
		t.Errorf("the buttons are %s", got)
	}
	w.picture("hostile")
}

// contrast is the WCAG ratio of each text to what is behind it, the lowest first.
const contrast = `(() => {
  const parse = c => c.match(/[\d.]+/g).map(Number);
  const lum = c => { const f = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 }; return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]) };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c } return matchMedia("(prefers-color-scheme: dark)").matches ? [0, 0, 0] : [255, 255, 255] };
  const low = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim())) continue;
    const a = lum(parse(getComputedStyle(e).color)), b = lum(behind(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push(ratio.toFixed(2) + " " + e.tagName + " " + e.innerText.slice(0, 30));
  }
  return low.sort().join("; ");
})()`

// names is every control without a name that a screen reader can say, every jump in
// the order of headings, and what a page must have once.
const names = `(() => {
  const bad = [];
  for (const e of document.querySelectorAll("input:not([type=hidden]), button, a, select, textarea")) {
    const label = (e.labels && [...e.labels].map(l => l.innerText).join(" ")) || e.innerText || e.getAttribute("aria-label") || "";
    if (!label.trim()) bad.push("no name: " + e.outerHTML.slice(0, 80));
  }
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4")) { const n = +h.tagName[1]; if (n > level + 1) bad.push("heading jumps: " + h.innerText); level = n }
  for (const one of ["h1", "main", "title", "html[lang=en]", "a.skip"]) if (document.querySelectorAll(one).length != 1) bad.push("not one " + one);
  for (const id of [...document.querySelectorAll("[id]")].map(e => e.id)) if (document.querySelectorAll("#" + CSS.escape(id)).length != 1) bad.push("id twice: " + id);
  for (const a of ["aria-labelledby", "aria-describedby"]) for (const e of document.querySelectorAll("[" + a + "]")) if (!document.getElementById(e.getAttribute(a))) bad.push("names nothing: " + a);
  return bad.join("; ");
})()`

// Guarantee: OPS2
func TestPagesCanBeReadByEverybody(t *testing.T) {
	s, org := sandboxHouse(t)
	w := s.enter(alice)
	connected(w, s, org)
	address := s.propose(draft)
	connection := strings.TrimSuffix(w.at(), "/connected")
	w.open(address)
	operation := w.ask(`document.querySelector('a[href^="/operations/"]').href`)
	looked := 0
	for _, scheme := range []string{"light", "dark"} {
		w.prefer(scheme)
		for _, page := range []string{"/", "/approvals", address, "/operations", operation, "/connections", connection, connection + "/disconnect", connection + "/connected",
			"/connect", "/connect?provider=sandbox", "/signin", "/nowhere"} {
			if strings.HasPrefix(page, "/") {
				page = s.base + page
			}
			u, err := url.Parse(page)
			if err != nil {
				t.Fatal(err)
			}
			w.do(size(1280, 900))
			w.open(page)
			looked++
			if low := w.ask(contrast); low != "" {
				t.Errorf("%s %s: too little contrast: %s", scheme, u.Path, low)
			}
			if bad := w.ask(names); bad != "" {
				t.Errorf("%s: %s", u.Path, bad)
			}
			// 640 pixels at 200 % and 320 at 400 % of a window 1280 wide (WCAG 1.4.10).
			for _, width := range []int64{640, 320} {
				w.do(size(width, 900))
				if wide := w.ask(`document.documentElement.scrollWidth > innerWidth`); wide != "false" {
					t.Errorf("%s scrolls sideways at %d pixels", u.Path, width)
				}
			}
		}
		w.do(size(1280, 900))
		w.open(address)
		w.picture("approval-" + scheme)
		w.open(s.base)
		w.picture("home-" + scheme)
	}
	t.Logf("figure: %d pages in light and dark with enough contrast, names and no sideways scroll", looked)
	if dark, light := w.ask(`getComputedStyle(document.body).backgroundColor`), func() string {
		w.prefer("light")
		return w.ask(`getComputedStyle(document.body).backgroundColor`)
	}(); dark == light {
		t.Errorf("dark and light are both %s", dark)
	}
}
