package dev_test

import (
	"crypto/sha256"
	"encoding/hex"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/contracttests/dev"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
)

func TestReadByForm(t *testing.T) {
	t.Parallel()
	d := inside(t)
	id, err := d.org.Seed(t.Context(), kit.Object{Container: "orders", Title: "Printer <script>alert(1)</script> on fire", Body: "b"})
	if err != nil {
		t.Fatal(err)
	}
	d.reads(d.get("/"), "tickets.search", "tickets.get", "after an approval", "None yet")
	d.reads(d.get("/tools/tickets.get"), "/id")
	status, page := d.post("/tools/tickets.get", "/id", id)
	if status != http.StatusOK || strings.Contains(page, "<script") {
		t.Errorf("answers %d with foreign text that acts", status)
	}
	d.reads(plain(page), "success", "Printer <script>alert(1)</script> on fire", "On the wire meanwhile (1)", "answered 200", "reports 1 attempts")
	d.reads(d.get("/wire"), "GET /", "The header with the credential is left out")
	d.reads(d.get("/"), "1. tickets.get: success")
	d.reads(d.get("/log"), "Nothing yet")
}

// What is wrong with an input stands at its field, and what was typed stays.
func TestFaultsStandAtTheirFields(t *testing.T) {
	t.Parallel()
	d := inside(t)
	status, page := d.post("/tools/tickets.create", "/project", "orders", "/title", "", "/severity", `"dire"`, "/body", "kept")
	if status != http.StatusUnprocessableEntity {
		t.Errorf("answers %d", status)
	}
	for pointer, want := range map[string]string{"/title": "is too short (minLength)", "/severity": "is none of the values"} {
		at := regexp.MustCompile(`id="(f\d+)" name="` + pointer + `"[^>]*aria-describedby="(f\d+-about)" aria-invalid="true"`).FindStringSubmatch(page)
		if at == nil {
			t.Errorf("%s is not marked:\n%s", pointer, plain(page))
			continue
		}
		_, about, _ := strings.Cut(page, `id="`+at[2]+`"`)
		if about, _, _ = strings.Cut(about, "</p>"); !strings.Contains(about, want) {
			t.Errorf("%s says %q, want %q", pointer, about, want)
		}
	}
	if !strings.Contains(page, "\nkept</textarea>") {
		t.Errorf("what was typed is gone: %s", page)
	}
	if strings.Count(page, `aria-invalid`) != 2 {
		t.Errorf("%d fields are marked, want 2", strings.Count(page, `aria-invalid`))
	}
	_, page = d.post("/tools/tickets.create", "json", `{"project":"orders","tenant":"other"}`)
	d.reads(plain(page), "INVALID_INPUT", "/tenant: ", "is missing (required)")
	_, page = d.post("/tools/tickets.create", "json", `{"project"`)
	d.reads(plain(page), "INVALID_INPUT")
	if n := len(d.org.Ledger()); n != 0 {
		t.Errorf("the provider holds %d writes", n)
	}
}

// A person approves the bytes that the page shows, and those are sent, once.
// Guarantee: TIX4
func TestWriteByApproval(t *testing.T) {
	t.Parallel()
	d := inside(t)
	_, page := d.post("/tools/tickets.create", draft("Checkout times out")...)
	d.reads(plain(page), "waits for an approval", "Exactly this will be sent, once", "POST /", "Checkout times out", "Approve and send")
	if n := len(d.org.Ledger()); n != 0 {
		t.Fatalf("%d writes before the approval", n)
	}
	shown := regexp.MustCompile(`(?s)<pre class="foreign block" dir="auto">(POST .*?)</pre>`).FindStringSubmatch(page)
	if shown == nil {
		t.Fatalf("no request is shown:\n%s", page)
	}
	_, body, _ := strings.Cut(html.UnescapeString(shown[1]), "\n\n")
	operation := d.operationIn(page)
	_, page = d.post(operation + "/approve")
	d.reads(plain(page), "success", "Receipt", "verified", "the provider's answer")
	writes := d.org.Ledger()
	if len(writes) != 1 || writes[0].Title != "Checkout times out" {
		t.Fatalf("the provider holds %+v", writes)
	}
	if sum := sha256.Sum256([]byte(body)); hex.EncodeToString(sum[:]) != writes[0].BodySHA256 {
		t.Errorf("the provider was sent another body than the page showed:\n%s", body)
	}
	// The form has kept its intent, which was none, so this is the same write.
	_, page = d.post("/tools/tickets.create", draft("Checkout times out")...)
	d.reads(plain(page), "nothing was sent now")
	if strings.Contains(page, `value="args:`) {
		t.Error("the form has an intent that nobody gave")
	}
	_, page = d.post("/tools/tickets.create", append(draft("Checkout times out"), "intent", "another one")...)
	d.reads(plain(page), "waits for an approval")
	if status, _ := d.post(operation + "/approve"); status != http.StatusConflict {
		t.Errorf("a second approval answers %d", status)
	}
	if n := len(d.org.Ledger()); n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
	d.reads(d.get("/operations"), "applied", "waits for an approval")
	d.reads(d.get(operation), "Receipt", "dispatching to applied")
}

// Guarantee: TIX4
func TestDeniedWriteIsNotSent(t *testing.T) {
	t.Parallel()
	d := inside(t)
	_, page := d.post("/tools/tickets.create", draft("Unwanted")...)
	operation := d.operationIn(page)
	_, page = d.post(operation + "/deny")
	if strings.Contains(plain(page), "Approve and send") || len(d.org.Ledger()) != 0 {
		t.Errorf("%d writes after the denial:\n%s", len(d.org.Ledger()), plain(page))
	}
	if status, _ := d.post(operation + "/approve"); status != http.StatusConflict || len(d.org.Ledger()) != 0 {
		t.Errorf("an approval after the denial answers %d, with %d writes", status, len(d.org.Ledger()))
	}
}

// Guarantee: TIX5
func TestLostAnswerIsLookedUp(t *testing.T) {
	t.Parallel()
	d := inside(t)
	if status, page := d.post("/faults", "fault", "lose", "on", "writes", "times", "once"); status != http.StatusOK || !strings.Contains(page, "Switched on") {
		t.Fatalf("the fault answers %d", status)
	}
	_, page := d.post("/tools/tickets.create", draft("Lost on its way")...)
	operation := d.operationIn(page)
	_, page = d.post(operation + "/approve")
	d.reads(plain(page), "OUTCOME_UNKNOWN", "It is not sent again", "Look it up", "Fault: lose answer", "no answer")
	d.reads(d.get("/"), "Outcome unknown")
	if strings.Contains(d.get("/"), "Switched on") {
		t.Error("the fault is shown as switched on after it acted")
	}
	_, page = d.post(operation + "/look")
	d.reads(plain(page), "applied", "a look-up")
	if n, err := d.org.Count(t.Context(), "Lost on its way"); err != nil || n != 1 || len(d.org.Ledger()) != 1 {
		t.Errorf("the provider holds %d tickets by %d writes (%v), want one by one", n, len(d.org.Ledger()), err)
	}
}

func TestPagesOfAList(t *testing.T) {
	t.Parallel()
	d := inside(t)
	for range 3 {
		if _, err := d.org.Seed(t.Context(), kit.Object{Container: "orders", Title: "needle", Body: "b"}); err != nil {
			t.Fatal(err)
		}
	}
	_, page := d.post("/tools/tickets.search", "/query", "needle", "/page_size", "2")
	d.reads(plain(page), "success", "Next page")
	if n := strings.Count(page, "/next"); n != 1 {
		t.Fatalf("%d ways to the next page", n)
	}
	_, page = d.post("/calls/1/next")
	d.reads(plain(page), "success", "needle")
	if strings.Contains(plain(page), "Next page") {
		t.Error("the last page leads on")
	}
	if status, _ := d.post("/calls/2/next"); status != http.StatusNotFound {
		t.Errorf("a page behind the last answers %d", status)
	}
}

// Whatever a connector does with a credential, the pages do not show it.
// Guarantee: CRE6
func TestNoCredentialOnAnyPage(t *testing.T) {
	t.Parallel()
	var bench dev.Bench
	d := inside(t, func(b *dev.Bench) {
		bench = *b
		b.Log = func() string {
			leaked := "a careless line\u202e:"
			for _, e := range bench.Proxy.Seen() {
				leaked += " " + e.Header.Get("Authorization")
			}
			return leaked
		}
	})
	id, err := d.org.Seed(t.Context(), kit.Object{Container: "orders", Title: "t", Body: "b"})
	if err != nil {
		t.Fatal(err)
	}
	d.post("/tools/tickets.get", "/id", id)
	_, page := d.post("/tools/tickets.create", draft("Kept secret")...)
	operation := d.operationIn(page)
	d.post(operation + "/approve")
	var tokens []string
	for _, e := range bench.Proxy.Seen() {
		tokens = append(tokens, strings.TrimPrefix(e.Header.Get("Authorization"), "Bearer "))
	}
	if len(tokens) < 3 || len(tokens[0]) < 8 {
		t.Fatalf("%d requests with a credential", len(tokens))
	}
	d.reads(d.get("/log"), "a careless line⟨U+202E⟩: Bearer [credential]")
	for _, path := range []string{"/", "/wire", "/log", "/operations", operation, "/calls/1", "/calls/2", "/calls/3", "/faults", "/tools/tickets.create"} {
		_, text := d.do(http.MethodGet, path, nil, nil)
		for _, token := range tokens {
			if strings.Contains(text, token) || strings.Contains(html.UnescapeString(text), token) {
				t.Errorf("%s shows a credential", path)
				break
			}
		}
	}
}
