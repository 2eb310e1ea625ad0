package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	engine "github.com/ory/dockertest/v3/docker"
	"go.uber.org/goleak"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox/docker"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

func TestMain(m *testing.M) {
	// The engine's client keeps its connection to the socket.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// The product's main job against the organisation in its own container, and
// against the same binary without one.
// Guarantee: TST2
func TestTheSameOrganisationInsideAndOutside(t *testing.T) {
	binary, err := docker.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		start func(context.Context, string, ...string) (*docker.Org, error)
	}{{"container", docker.Start}, {"process", docker.Process}} {
		t.Run(tc.name, func(t *testing.T) {
			org, err := tc.start(t.Context(), binary, "--seed", "1")
			if errors.Is(err, docker.ErrNoEngine) && os.Getenv("CI_REQUIRE_DOCKER") != "1" {
				t.Skipf("not claimed here: %v; run .ci/docker, or set CI_REQUIRE_DOCKER=1 to fail instead", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			closed := false
			defer func() {
				if !closed {
					org.Close()
				}
			}()
			if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(org.Digest) {
				t.Errorf("digest %q", org.Digest)
			}
			d := newDesk(t, org)
			d.looks()
			d.createsOnce()
			d.settlesALostAnswer()
			closed = true
			if err := org.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if resp, err := http.Get(org.Ready.URL); err == nil {
				resp.Body.Close()
				t.Error("it still answers after it was closed")
			}
			if tc.name == "container" {
				nothingLeft(t, org.Digest)
			}
			t.Logf("figure: sandbox as a %s: read, approved create and lost answer passed", tc.name)
		})
	}
}

// nothingLeft looks for the image and for containers of it, running or not.
func nothingLeft(t *testing.T, image string) {
	t.Helper()
	pool, err := dockertest.NewPool("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Client.InspectImage(image); err == nil {
		t.Errorf("the image %s is left behind", image)
	}
	all, err := pool.Client.ListContainers(engine.ListContainersOptions{All: true, Filters: map[string][]string{"name": {"drawbridge-sandbox"}}})
	if err != nil || len(all) > 0 {
		t.Errorf("containers left behind: %v, error %v", all, err)
	}
}

func TestWhatEndsAtOnceIsNotReady(t *testing.T) {
	binary, err := docker.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if org, err := docker.Process(t.Context(), binary, "--no-such-flag"); err == nil {
		org.Close()
		t.Error("a process that ended is ready")
	}
	org, err := docker.Start(t.Context(), binary, "--no-such-flag")
	switch {
	case err == nil:
		org.Close()
		t.Error("a container that ended is ready")
	case !errors.Is(err, docker.ErrNoEngine):
		nothingLeft(t, "")
	}
}

func TestWithoutAnEngineThereIsNoContainer(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/none.sock")
	if _, err := docker.Start(t.Context(), os.Args[0]); !errors.Is(err, docker.ErrNoEngine) {
		t.Errorf("error %v", err)
	}
}

// desk is the product, connected to an organisation that only HTTP reaches.
type desk struct {
	*testing.T
	org     *docker.Org
	host    *host.Host
	runtime *connector.Runtime
	caller  connector.Caller
}

func newDesk(t *testing.T, org *docker.Org) *desk {
	t.Helper()
	url := org.Ready.URL
	h, err := host.Open(t.Context(), host.Config{Data: t.TempDir(), Policy: host.Local{}, Consent: host.Local{},
		Instances: []host.Instance{{Name: "sandbox", Driver: "sandbox", URL: url, Private: host.Loopback(url)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	runtime, _ := h.Runtime("sandbox")
	d := &desk{t, org, h, runtime, connector.Caller{Tenant: "acme", Principal: "alice", Run: t.Name()}}
	begun, err := h.Credentials.Begin(t.Context(), d.caller, credentials.BeginRequest{
		Provider: "sandbox", RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: "a scripted browser"})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	back, err := sandbox.Login(t.Context(), client, begun.URL, "alice", password(org, "alice"), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Credentials.Finish(t.Context(), d.caller, "a scripted browser", back.Query(), runtime.Identify); err != nil {
		t.Fatal(err)
	}
	return d
}

func password(org *docker.Org, login string) string {
	for _, u := range org.Ready.Users {
		if u.Login == login {
			return u.Password
		}
	}
	return ""
}

// admin asks the organisation itself: it is the judge.
func (d *desk) admin(method, path string, body any, into any) {
	d.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		d.Fatal(err)
	}
	req, err := http.NewRequestWithContext(d.Context(), method, d.org.Ready.URL+path, bytes.NewReader(raw))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.org.Ready.AdminToken)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 {
		d.Fatalf("%s %s: status %d", method, path, resp.StatusCode)
	}
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			d.Fatal(err)
		}
	}
}

func (d *desk) writes() int {
	var ledger struct {
		Writes []sandbox.Write `json:"writes"`
	}
	d.admin(http.MethodGet, "/admin/ledger", nil, &ledger)
	return len(ledger.Writes)
}

func (d *desk) call(tool string, arguments any) connector.Result {
	raw, err := json.Marshal(arguments)
	if err != nil {
		d.Fatal(err)
	}
	return d.runtime.Execute(d.Context(), d.caller, connector.Call{Tool: tool, Arguments: raw})
}

func (d *desk) looks() {
	d.Helper()
	r := d.call("tickets.search", map[string]any{"query": "customer", "page_size": 2, "cursor": nil})
	if r.Error != nil || r.NextCursor == nil {
		d.Errorf("a search ends as %s %+v", r.Status, r.Error)
	}
	if n := d.writes(); n != 0 {
		d.Errorf("looking wrote %d times", n)
	}
}

// approved proposes a ticket and lets a person agree to it.
func (d *desk) approved(draft tickets.Draft) connector.Result {
	d.Helper()
	asked := d.call("tickets.create", draft)
	if asked.Pending == nil {
		d.Fatalf("the proposal ends as %s %+v", asked.Status, asked.Error)
	}
	if _, err := d.host.Ledger.Approve(d.Context(), d.caller.Tenant, string(asked.Pending.Approval), "maria"); err != nil {
		d.Fatal(err)
	}
	return d.call("tickets.create", draft)
}

func (d *desk) createsOnce() {
	d.Helper()
	draft := tickets.Draft{Project: "web", Title: "Created from outside", Body: "x", Severity: "low"}
	first, second := d.approved(draft), d.call("tickets.create", draft)
	if first.Receipt == nil || first.Receipt.Proof() != connector.ProofVerified || !second.Replayed {
		d.Errorf("first %+v, second %+v", first, second)
	}
	if n := d.writes(); n != 1 {
		d.Errorf("the organisation has %d writes, want 1", n)
	}
}

func (d *desk) settlesALostAnswer() {
	d.Helper()
	before := d.writes()
	d.admin(http.MethodPut, "/admin/behaviour", sandbox.Behaviour{Rules: []sandbox.Rule{{
		Match:  sandbox.Match{Method: "POST", Path: "/api/v1/tickets", Exact: true, Times: 1},
		Effect: sandbox.Effect{Kind: "lose_answer_after_commit"},
	}}}, nil)
	lost := d.approved(tickets.Draft{Project: "web", Title: "The answer is lost", Body: "x", Severity: "low"})
	if lost.Status != connector.StatusUnknown {
		d.Fatalf("a lost answer ends as %s %+v", lost.Status, lost.Error)
	}
	rec, err := d.host.Ledger.Get(d.Context(), d.caller.Tenant, lost.Effect.Operation)
	if err == nil {
		rec, err = d.host.Settle(d.Context(), rec)
	}
	if err != nil || rec.State != connector.StateApplied {
		d.Errorf("settled as %q, %v", rec.State, err)
	}
	if n := d.writes() - before; n != 1 {
		d.Errorf("the organisation has %d writes of it, want 1", n)
	}
}
