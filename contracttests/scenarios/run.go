package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
)

// Config says where a run keeps its things and tells its story.
type Config struct {
	Data     string       // an empty folder; the caller removes it
	Database string       // empty: SQLite in Data
	Story    io.Writer    // nil: nobody listens
	Logger   *slog.Logger // nil discards
}

// Run plays the four scenarios, each with a connection of its own, and reports.
// The error is about the run itself; a scenario that fails is in the report.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Story == nil {
		c.Story = io.Discard
	}
	org, err := sandbox.Start(ctx, sandbox.Config{Seed: 1})
	if err != nil {
		return Report{}, err
	}
	defer org.Close()
	return Against(ctx, c, org)
}

// Against plays the scenarios against a sandbox that the caller started.
func Against(ctx context.Context, c Config, org *sandbox.Server) (Report, error) {
	if c.Story == nil {
		c.Story = io.Discard
	}
	h, err := host.Open(ctx, host.Config{
		Data: c.Data, Database: c.Database, Policy: host.Local{}, Consent: host.Local{}, Logger: c.Logger,
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: org.URL(), Private: host.Loopback(org.URL())}},
	})
	if err != nil {
		return Report{}, err
	}
	defer h.Close()
	runtime, _ := h.Runtime("sandbox")
	fmt.Fprintf(c.Story, "A ticket organisation runs at %s.\nAn agent proposes; Drawbridge decides what may happen, and proves what did.\n", org.URL())

	report := Report{Passed: true}
	for n, play := range []struct {
		name  string
		title string
		play  func(*stage)
	}{
		{"investigate", "Look, and change nothing", investigate},
		{"approved-create", "Create one ticket, after a person has read exactly what will be sent", approvedCreate},
		{"lost-answer", "The provider commits, and its answer is lost", lostAnswer},
		{"revoked-midway", "The connection is cut between two pages", revokedMidway},
	} {
		fmt.Fprintf(c.Story, "\n%d. %s  (%s)\n", n+1, play.title, play.name)
		s := &stage{ctx: ctx, host: h, runtime: runtime, org: org, story: c.Story, out: Outcome{Name: play.name, Steps: []Step{}},
			caller: connector.Caller{Tenant: "acme", Principal: connector.PrincipalID("alice-" + play.name), Run: play.name}}
		before := len(org.Ledger())
		s.connect()
		if len(s.out.Failures) == 0 {
			play.play(s)
		}
		s.out.ProviderWrites = len(org.Ledger()) - before
		for _, w := range org.Ledger()[before:] {
			if w.Kind == "create" {
				s.out.TicketsAtProvider++
			}
		}
		s.finish()
		report.Scenarios = append(report.Scenarios, s.out)
		report.Passed = report.Passed && s.out.Passed
	}
	return report, ctx.Err()
}

// stage is one scenario being played.
type stage struct {
	ctx        context.Context
	host       *host.Host
	runtime    *connector.Runtime
	org        *sandbox.Server
	story      io.Writer
	caller     connector.Caller
	connection connector.Connection
	out        Outcome
	wantWrites int
	wantMade   int
}

func (s *stage) say(format string, args ...any) {
	fmt.Fprintf(s.story, "   "+format+"\n", args...)
}

func (s *stage) check(ok bool, format string, args ...any) {
	if !ok {
		s.out.Failures = append(s.out.Failures, fmt.Sprintf(format, args...))
	}
}

// finish compares the provider's ledger with what the scenario promises.
func (s *stage) finish() {
	s.check(s.out.ProviderWrites == s.wantWrites, "the provider's ledger has %d writes, want %d", s.out.ProviderWrites, s.wantWrites)
	s.check(s.out.TicketsAtProvider == s.wantMade, "the provider holds %d tickets of this scenario, want %d", s.out.TicketsAtProvider, s.wantMade)
	s.out.Passed = len(s.out.Failures) == 0
	s.say("provider's own ledger: %s", plural(s.out.ProviderWrites, "write"))
	for _, f := range s.out.Failures {
		s.say("FAILED: %s", f)
	}
	if s.out.Passed {
		s.say("passed")
	}
}

// connect walks the provider's real sign-in and consent pages as alice.
func (s *stage) connect() {
	var password string
	for _, u := range s.org.Users() {
		if u.Login == "alice" {
			password = u.Password
		}
	}
	const browser = "the scripted browser of the scenarios"
	begun, err := s.host.Credentials.Begin(s.ctx, s.caller, credentials.BeginRequest{
		Provider: "sandbox", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser})
	if err != nil {
		s.check(false, "connect: %v", connector.CodeOf(err))
		return
	}
	back, err := sandbox.Login(s.ctx, &http.Client{Timeout: 10 * time.Second}, begun.URL, "alice", password, true)
	if err != nil {
		s.check(false, "the sign-in pages could not be walked")
		return
	}
	s.connection, err = s.host.Credentials.Finish(s.ctx, s.caller, browser, back.Query(), s.runtime.Identify)
	if err != nil {
		s.check(false, "connect: %v", connector.CodeOf(err))
		return
	}
	s.say("alice connects her account: %s at %s, projects %s", s.connection.Account.Login,
		s.connection.Account.Organisation, strings.Join(s.connection.Resources, " and "))
}

// call runs one tool and keeps what the caller saw.
func (s *stage) call(tool string, arguments any) connector.Result {
	raw, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // literals of this package
	}
	result := s.runtime.Execute(s.ctx, s.caller, connector.Call{Tool: tool, Arguments: raw})
	step := Step{Tool: tool, Status: string(result.Status), Effect: result.Effect.Disposition.String()}
	if result.Error != nil {
		step.Code = result.Error.Code.String()
	}
	s.out.Steps = append(s.out.Steps, step)
	return result
}

func (s *stage) expect(r connector.Result, status connector.Status, code connector.Code) {
	got := connector.Code(0)
	if r.Error != nil {
		got = r.Error.Code
	}
	s.check(r.Status == status && got == code, "%s answered %s %v, want %s %v", r.Tool, r.Status, codeText(got), status, codeText(code))
}

func codeText(c connector.Code) string {
	if c == 0 {
		return "without an error"
	}
	return c.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
