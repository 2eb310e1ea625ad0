package browser

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/drawbridge-dev/drawbridge/contracttests/dev"
	"github.com/drawbridge-dev/drawbridge/contracttests/kit"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// keptOrg is the sandbox organisation, with its ledger in the test's hand.
type keptOrg struct {
	kit.Harness
	ledger func() []sandbox.Write
}

func (k *keptOrg) Start(ctx context.Context, dir string, seed int64) (kit.Provider, error) {
	p, err := k.Harness.Start(ctx, dir, seed)
	if err == nil {
		k.ledger = p.(interface{ Ledger() []sandbox.Write }).Ledger
	}
	return p, err
}

// develop serves the ticket connector to its author.
func develop(t *testing.T) (*keptOrg, dev.Greeting) {
	t.Helper()
	chromium(t)
	org := &keptOrg{Harness: kit.SandboxOrg()}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan dev.Greeting, 1), make(chan error, 1)
	go func() {
		ended <- kit.Develop(ctx, t, kit.Tickets(tickets.New(sandboxorg.Driver{}), org), func(ctx context.Context, b dev.Bench) error {
			return dev.Serve(ctx, b, "127.0.0.1:0", func(g dev.Greeting) { ready <- g })
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	select {
	case g := <-ready:
		return org, g
	case err := <-ended:
		ended <- err
		t.Fatalf("it does not serve: %v", err)
		return nil, dev.Greeting{}
	}
}

// An author comes from the link to a write that was looked up, by the keyboard
// alone and without script.
// Guarantee: OPS2
func TestDevelopWithTheKeyboardAlone(t *testing.T) {
	org, at := develop(t)
	w := newWindow(t, "author")
	w.withoutScript()
	w.open(at.SignIn)
	w.tabTo("BUTTON Come in")
	w.enter()
	w.tabTo("A Skip to the content")
	w.tabTo("A Faults")
	w.enter()
	w.tabTo("INPUT fault")
	w.do(chromedp.KeyEvent(" "))
	w.tabTo("SELECT " + w.ask(`document.querySelector("#on").innerText`))
	w.do(chromedp.KeyEvent("w"))
	w.tabTo("BUTTON Switch it on")
	w.enter()
	w.reads("Switched on: The answer is lost (writes, the next one)")

	w.tabTo("A Connector")
	w.enter()
	w.tabTo("A Create a ticket")
	w.enter()
	w.fill("TEXTAREA /body", "Since Monday.")
	w.fill("INPUT /project", "orders")
	w.fill("INPUT /title", "It is <b>slow</b>")
	w.tabTo("BUTTON Propose")
	w.enter()
	w.reads("INVALID_INPUT", "is missing (required) ", "/severity")
	w.picture("dev-faults")
	w.tabTo("SELECT " + w.ask(`document.querySelector("select[aria-invalid=true]").innerText`))
	w.do(chromedp.KeyEvent("l"))
	w.tabTo("BUTTON Propose")
	w.enter()
	w.reads("Exactly this will be sent, once", `"title":"It is \u003cb\u003eslow\u003c/b\u003e"`, "It is <b>slow</b>")
	w.picture("dev-approval")
	w.tabTo("BUTTON Approve and send")
	w.enter()
	w.reads("OUTCOME_UNKNOWN", "It is not sent again", "Fault: lose answer")
	w.tabTo("BUTTON Look it up")
	w.enter()
	w.reads("applied", "a look-up")
	if writes := org.ledger(); len(writes) != 1 || writes[0].Title != "It is <b>slow</b>" {
		t.Errorf("the provider holds %+v, want one write", writes)
	}
}

// fill writes into a field that the tab key leads to.
func (w *window) fill(field, text string) {
	w.t.Helper()
	w.tabTo(field)
	w.do(chromedp.KeyEvent(text))
}

// Guarantee: OPS2
func TestDevPagesCanBeReadByEverybody(t *testing.T) {
	_, at := develop(t)
	w := newWindow(t, "author")
	w.open(at.SignIn)
	w.press("main button")
	w.open(at.URL + "/tools/tickets.create")
	w.press("form button") // nothing is filled in
	w.open(at.URL + "/faults")
	w.do(chromedp.Click(chromedp.CSS("#fault-503")))
	w.press("main form button")
	w.open(at.URL + "/tools/tickets.search")
	w.press("form button")
	w.open(at.URL + "/tools/tickets.create")
	w.write(`[name="/body"]`, "b")
	w.write(`[name="/project"]`, "orders")
	w.write(`[name="/title"]`, "t")
	w.write(`[name="/severity"]`, "low")
	w.press("form button")
	operation := w.ask(`document.querySelector('a[href^="/operations/op"]').getAttribute("href")`)
	looked := 0
	for _, scheme := range []string{"light", "dark"} {
		w.prefer(scheme)
		for _, page := range []string{"/", "/tools/tickets.create", "/calls/1", "/calls/2", "/calls/3", "/operations", operation, "/faults", "/wire", "/log", "/nowhere"} {
			w.do(size(1280, 900))
			w.open(at.URL + page)
			w.ask(`document.querySelectorAll("details").forEach(d => d.open = true)`) // what is closed has no text
			looked++
			if low := w.ask(contrast); low != "" {
				t.Errorf("%s %s: too little contrast: %s", scheme, page, low)
			}
			if bad := w.ask(names); bad != "" {
				t.Errorf("%s: %s", page, bad)
			}
			for _, width := range []int64{640, 320} {
				w.do(size(width, 900))
				if wide := w.ask(`document.documentElement.scrollWidth > innerWidth`); wide != "false" {
					t.Errorf("%s scrolls sideways at %d pixels", page, width)
				}
			}
		}
		for name, page := range map[string]string{"dev-home": "/", "dev-call": "/calls/3", "dev-switches": "/faults"} {
			w.do(size(1280, 900))
			w.open(at.URL + page)
			w.picture(name + "-" + scheme)
		}
	}
	t.Logf("figure: %d pages of drawbridge dev in light and dark with enough contrast, names and no sideways scroll", looked)
}
