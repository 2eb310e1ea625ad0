package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// process is the one Chromium of a test run. Each window has its own cookies, so two
// windows are two people.
var process struct {
	once   sync.Once
	path   string
	ctx    context.Context
	finish func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if process.finish != nil {
		process.finish()
	}
	os.Exit(code)
}

func chromium(t *testing.T) context.Context {
	t.Helper()
	if os.Getenv("CI_REQUIRE_CHROMIUM") == "" {
		t.Skip("a browser takes its time: make browser")
	}
	process.once.Do(func() {
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if path, err := exec.LookPath(name); err == nil {
				process.path = path
				break
			}
		}
		if process.path == "" {
			return
		}
		profile, err := os.MkdirTemp("", "drawbridge-browser-")
		if err != nil {
			t.Fatal(err)
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(process.path), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.UserDataDir(profile))
		alloc, stopProcess := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, stop := chromedp.NewContext(alloc)
		process.ctx = ctx
		process.finish = func() {
			stop()
			stopProcess()
			// Children of the browser can still write for a moment.
			for range 50 {
				if os.RemoveAll(profile) == nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		if err := chromedp.Do(ctx); err != nil {
			t.Fatalf("the browser does not start: %v", err)
		}
	})
	if process.path == "" {
		t.Fatal("there is no Chromium")
	}
	return process.ctx
}

// patience is for one page. A slow machine needs more than a second for some.
const patience = 30 * time.Second

// window is one person's browser.
type window struct {
	t    *testing.T
	name string
	ctx  context.Context

	mu         sync.Mutex
	complaints []string // what the browser complained about
	ignored    string   // on pages below this address it may complain
	elsewhere  bool     // it is on one of those
}

// newWindow opens an empty browser. Whatever it complains about by the end fails the
// test: an error, a violation of the content policy, a page that wants script.
func newWindow(t *testing.T, name string) *window {
	t.Helper()
	parent, cancelTime := context.WithTimeout(chromium(t), time.Minute)
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	w := &window{t: t, name: name, ctx: ctx}
	w.check(chromedp.Listen(ctx, w.listen))
	_, err := chromedp.Call(ctx, audits.Enable, cdp.Empty{})
	w.check(err)
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.complaints {
			t.Errorf("%s's browser complained: %s", name, c)
		}
		cancel()
		cancelTime()
	})
	return w
}

func (w *window) listen(ev any) {
	var complaint string
	switch e := ev.(type) {
	case *page.EventFrameNavigated:
		w.mu.Lock()
		w.elsewhere = w.ignored != "" && strings.HasPrefix(e.Frame.URL, w.ignored)
		w.mu.Unlock()
		return
	case *runtime.EventExceptionThrown:
		complaint = "exception " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		complaint = fmt.Sprintf("console %s", e.Type)
	case *audits.EventIssueAdded:
		complaint = fmt.Sprintf("issue %s", e.Issue.Code)
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceNetwork && strings.Contains(e.Entry.Text, "the server responded with a status of 4") {
			return // some pages answer so by right, and tests look at what they say
		}
		complaint = fmt.Sprintf("%s %s: %s (%s)", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.elsewhere {
		w.complaints = append(w.complaints, complaint)
	}
}

// ignore lets the browser complain about pages that are not ours.
func (w *window) ignore(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ignored = address
}

func (w *window) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s's browser: %v", w.name, err)
	}
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	w.check(chromedp.Do(w.ctx, steps...))
}

func (w *window) open(address string) {
	w.t.Helper()
	w.do(chromedp.Navigate(address))
}

// press clicks something and waits for the page behind it.
func (w *window) press(selector string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		w.t.Fatalf("%s presses %s at %s: %v\n%s", w.name, selector, w.at(), err, w.text())
	}
}

// await waits until something is there, across pages.
func (w *window) await(selector string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS(selector))); err != nil {
		w.t.Fatalf("%s waits for %s at %s: %v\n%s", w.name, selector, w.at(), err, w.text())
	}
}

func (w *window) write(selector, text string) {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

func (w *window) at() string {
	w.t.Helper()
	address, err := chromedp.Run(w.ctx, chromedp.Location())
	w.check(err)
	return address
}

func (w *window) text() string {
	w.t.Helper()
	text, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	w.check(err)
	return text
}

func (w *window) ask(expression string) string {
	w.t.Helper()
	text, err := chromedp.Run(w.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	w.check(err)
	return text
}

// reads checks what a person sees.
func (w *window) reads(texts ...string) {
	w.t.Helper()
	page := w.text()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			w.t.Errorf("%s at %s does not read %q but:\n%s", w.name, w.at(), text, page)
		}
	}
}

// prefer sets light or dark.
func (w *window) prefer(scheme string) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	w.check(err)
}

func (w *window) withoutScript() {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	w.check(err)
}

// picture keeps what the page looks like, for people.
func (w *window) picture(name string) {
	w.t.Helper()
	folder := os.Getenv("DRAWBRIDGE_SCREENSHOTS")
	if folder == "" {
		folder = w.t.TempDir()
	}
	w.check(os.MkdirAll(folder, 0o755))
	image, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
	w.check(err)
	w.check(os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644))
}

// focus says what the keyboard acts on: a tag, and the text or name of it.
func (w *window) focus() string {
	w.t.Helper()
	return w.ask(`(e => e.tagName + " " + (e.innerText || e.name || ""))(document.activeElement)`)
}

// tabTo moves the focus with the tab key alone, and checks that it can be seen.
func (w *window) tabTo(want string) {
	w.t.Helper()
	var way []string
	for range 40 {
		w.do(chromedp.KeyEvent("\t"))
		at := w.focus()
		way = append(way, at)
		if at != want {
			continue
		}
		if outline := w.ask(`getComputedStyle(document.activeElement).outlineStyle`); outline == "none" {
			w.t.Errorf("the focus on %s can't be seen", want)
		}
		return
	}
	w.t.Fatalf("the tab key never comes to %q, but to %q", want, way)
}

func (w *window) enter() {
	w.t.Helper()
	if _, err := chromedp.RunResponse(w.ctx, chromedp.KeyEvent("\r")); err != nil {
		w.t.Fatalf("%s presses Enter at %s: %v", w.name, w.at(), err)
	}
}

func size(width, height int64) chromedp.Action[chromedp.Void] {
	return chromedp.EmulateViewport(width, height)
}
