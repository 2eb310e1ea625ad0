package credentials

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

func (b *bench) terminal(c *Config) {
	c.Providers[0].DeviceURL = b.org.URL() + "/oauth/device_authorization"
}

func (r *replica) beginDevice(caller connector.Caller, change ...func(*DeviceRequest)) DeviceBegun {
	r.b.t.Helper()
	req := DeviceRequest{Provider: "tickets"}
	for _, f := range change {
		f(&req)
	}
	begun, err := r.BeginDevice(r.b.t.Context(), caller, req)
	if err != nil {
		r.b.t.Fatalf("begin: %v", err)
	}
	return begun
}

// poll asks now, whatever the interval.
func (r *replica) pollNow(caller connector.Caller, begun DeviceBegun) (DevicePoll, error) {
	r.b.t.Helper()
	r.b.exec(`UPDATE cred_transactions SET poll_at = 0 WHERE id = ?`, begun.Transaction)
	return r.PollDevice(r.b.t.Context(), caller, begun.Transaction, r.identify)
}

func (b *bench) decide(begun DeviceBegun, login string, allow bool) {
	b.t.Helper()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	if err := sandbox.LoginDevice(b.t.Context(), &http.Client{Transport: tr}, begun.CompleteURL, login, b.password(login), allow); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) polls() int { return b.org.OAuthStats().TokenRequests[deviceGrantType] }

// Guarantee: CRE1 (RFC 8628): a terminal's sign-in asks at the server's pace, is
// used once, is the initiator's only, and ends in a connection like any other.
func TestDeviceSignIn(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r, other := b.replica(b.terminal), b.replica(b.terminal)
		begun := r.beginDevice(alice)
		if begun.Interval != 5*time.Second || time.Until(begun.ExpiresAt) > 10*time.Minute || begun.UserCode == "" || begun.VerificationURL != b.org.URL()+"/oauth/device" {
			t.Errorf("begun = %#v", begun)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", begun, begun, begun, begun.LogValue()); strings.Contains(text, begun.UserCode) {
			t.Errorf("the code is printed: %s", text)
		}
		// Before its time nothing is asked, by nobody.
		for _, each := range []*replica{r, other, r} {
			got, err := each.PollDevice(t.Context(), alice, begun.Transaction, each.identify)
			if err != nil || got.Wait <= 0 || got.Wait > 5*time.Second {
				t.Errorf("early poll = %+v, %v", got, err)
			}
		}
		if n := b.polls(); n != 0 {
			t.Errorf("the server was asked %d times before its interval", n)
		}
		got, err := r.pollNow(alice, begun)
		if err != nil || got.Wait != 5*time.Second {
			t.Errorf("undecided = %+v, %v", got, err)
		}
		got, err = r.pollNow(alice, begun) // too early for the server
		if err != nil || got.Wait != 10*time.Second {
			t.Errorf("slow_down = %+v, %v; want five seconds more", got, err)
		}
		if n := b.number(`SELECT poll_interval FROM cred_transactions`); n != 10_000 {
			t.Errorf("interval = %d ms, want the longer one from now on", n)
		}
		// Another principal and another tenant see nothing of it (T12).
		for _, caller := range []connector.Caller{bob, carol, {}} {
			_, err := other.PollDevice(t.Context(), caller, begun.Transaction, other.identify)
			wantCode(t, err, connector.CodeNotFound)
		}
		b.decide(begun, "alice", true)
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{NoSlowDown: true}})
		// Many at once: one asks, one connection, the others wait or are told.
		b.exec(`UPDATE cred_transactions SET poll_at = 0`)
		before := b.polls()
		var all sync.WaitGroup
		var mu sync.Mutex
		var made []connector.Connection
		for i := range 8 {
			all.Go(func() {
				each := []*replica{r, other}[i%2]
				got, err := each.PollDevice(t.Context(), alice, begun.Transaction, each.identify)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && got.Wait == 0:
					made = append(made, got.Connection)
				case err != nil && connector.CodeOf(err) != connector.CodeConflict:
					t.Errorf("poll: %v", err)
				}
			})
		}
		all.Wait()
		if len(made) != 1 || b.polls() != before+1 || b.connections() != 1 {
			t.Fatalf("%d connections told of, %d stored, %d requests; want one of each", len(made), b.connections(), b.polls()-before)
		}
		c := made[0]
		if c.Account.Login != "alice" || c.Profile != "org" || len(c.Resources) != 2 {
			t.Errorf("connection = %+v", c)
		}
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read = %d, %v", status, err)
		}
		b.expire(c)
		if status, err := r.get(c); status != http.StatusOK {
			t.Errorf("read after a renewal = %d, %v", status, err)
		}
		again, err := r.pollNow(alice, begun)
		wantCode(t, err, connector.CodeConflict)
		if again.Connection.ID != c.ID {
			t.Errorf("the second use shows %q", again.Connection.ID)
		}
		// Renewing it by device keeps the account rule (C34).
		wrong := r.beginDevice(alice, func(q *DeviceRequest) { q.Connection = c.ID })
		b.decide(wrong, "bob", true)
		_, err = r.pollNow(alice, wrong)
		wantCode(t, err, connector.CodeConflict)
		b.wantStatus(c, StatusActive, "")
		if s := b.org.OAuthStats(); s.FamiliesAlive != 1 {
			t.Errorf("%d grants live, want the first one only", s.FamiliesAlive)
		}
	})
}

// Guarantee: CRE1 (RFC 8628 section 3.5): every way in which it ends, and what does not end it.
func TestDeviceSignInEndings(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(b.terminal)
		refuse := func(status int, body string) {
			b.behave(sandbox.Behaviour{Switches: sandbox.Switches{NoSlowDown: true}, Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/token"},
				Effect: sandbox.Effect{Kind: "status", Status: status, ContentType: "application/json", Body: body}}}})
		}
		begun := r.beginDevice(alice)
		// Trouble is no answer, and makes the wait longer.
		refuse(503, `{"error":"access_denied"}`)
		for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
			got, err := r.pollNow(alice, begun)
			if err != nil || got.Wait != want {
				t.Fatalf("trouble: %+v, %v, want a wait of %v", got, err, want)
			}
		}
		b.behave(sandbox.Behaviour{Switches: sandbox.Switches{NoSlowDown: true}})
		b.decide(begun, "alice", false)
		_, err := r.pollNow(alice, begun)
		wantCode(t, err, connector.CodePermissionDenied)
		asked := b.polls()
		_, err = r.pollNow(alice, begun)
		wantCode(t, err, connector.CodeConflict)
		if b.polls() != asked {
			t.Error("a sign-in that ended was asked about again")
		}
		for body, want := range map[string]connector.Code{
			`{"error":"expired_token"}`:  connector.CodeGone,
			`{"error":"invalid_grant"}`:  connector.CodeConnectionRequired,
			`{"error":"invalid_client"}`: connector.CodeProviderContract,
		} {
			begun := r.beginDevice(alice)
			refuse(400, body)
			_, err := r.pollNow(alice, begun)
			wantCode(t, err, want)
			if n := b.number(`SELECT count(*) FROM cred_transactions WHERE id = ? AND status = 'failed' AND verifier IS NULL`, begun.Transaction); n != 1 {
				t.Errorf("after %s the transaction still holds its code", body)
			}
		}
		b.behave(sandbox.Behaviour{})
		begun = r.beginDevice(alice)
		b.exec(`UPDATE cred_transactions SET expires_at = 1000 WHERE id = ?`, begun.Transaction)
		_, err = r.pollNow(alice, begun)
		wantCode(t, err, connector.CodeGone)
		// Approved, but too late for us: what was granted is given back.
		begun = r.beginDevice(alice)
		b.decide(begun, "alice", true)
		late := b.replica(b.terminal, around(func(_ context.Context, x transport.Exchange, send func() (connector.Response, error)) (connector.Response, error) {
			resp, err := send()
			if x.Form.Get("grant_type") == deviceGrantType {
				b.exec(`UPDATE cred_transactions SET expires_at = 1000 WHERE id = ?`, begun.Transaction)
			}
			return resp, err
		}))
		_, err = late.pollNow(alice, begun)
		wantCode(t, err, connector.CodeGone)
		if s := b.org.OAuthStats(); s.Families != 1 || s.FamiliesAlive != 0 || b.connections() != 0 {
			t.Errorf("%d grants, %d alive, %d connections", s.Families, s.FamiliesAlive, b.connections())
		}
	})
}

// Threat T16: a server's code and address reach a terminal only if they are harmless.
func TestDeviceAnswersThatAreNotAccepted(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(b.terminal)
		good := `"device_code":"d","user_code":"ABCD","verification_uri":"https://org.example/device"`
		for name, body := range map[string]string{
			"no JSON":                     `<html>`,
			"no device code":              strings.Replace(good, `"d"`, `""`, 1),
			"device code with a newline":  strings.Replace(good, `"d"`, `"d\r\nX: y"`, 1),
			"escape sequence in the code": strings.Replace(good, "ABCD", `\u001b]0;owned`, 1),
			"a code of a kilobyte":        strings.Replace(good, "ABCD", strings.Repeat("A", 1024), 1),
			"script as address":           strings.Replace(good, "https://org.example/device", "javascript:alert(1)", 1),
			"plain http elsewhere":        strings.Replace(good, "https:", "http:", 1),
			"an escape in the address":    strings.Replace(good, "/device", `/\u001b[2J`, 1),
		} {
			if strings.HasPrefix(body, `"`) {
				body = "{" + body + "}"
			}
			b.behave(sandbox.Behaviour{Rules: []sandbox.Rule{{Match: sandbox.Match{Path: "/oauth/device_authorization"},
				Effect: sandbox.Effect{Kind: "status", Status: 200, ContentType: "application/json", Body: body}}}})
			_, err := r.BeginDevice(t.Context(), alice, DeviceRequest{Provider: "tickets"})
			if got := connector.CodeOf(err); got != connector.CodeProviderContract {
				t.Errorf("%s: %v (%v)", name, got, err)
			}
		}
		if n := b.number(`SELECT count(*) FROM cred_transactions WHERE status = 'open'`); n != 0 {
			t.Errorf("%d slots are taken by what failed", n)
		}
		b.behave(sandbox.Behaviour{})
		_, err := b.replica().BeginDevice(t.Context(), alice, DeviceRequest{Provider: "tickets"})
		wantCode(t, err, connector.CodeInvalidInput) // the provider has no such endpoint
		for range maxOpen {
			r.beginDevice(bob)
		}
		asked := len(b.org.Requests())
		_, err = r.BeginDevice(t.Context(), bob, DeviceRequest{Provider: "tickets"})
		wantCode(t, err, connector.CodeRateLimited)
		if len(b.org.Requests()) != asked {
			t.Error("the provider was asked for one sign-in too many")
		}
	})
}

// Guarantee: CRE4: the code of a terminal's sign-in is sealed, moves with the
// keys, and opens nowhere else.
func TestDeviceCodeIsSealed(t *testing.T) {
	each(t, func(b *bench) {
		t := b.t
		r := b.replica(b.discovering)
		begun := r.beginDevice(alice)
		for where, text := range b.dump() {
			if strings.Contains(text, "dev_") || strings.Contains(text, begun.UserCode) {
				t.Errorf("a code is in the %s", where)
			}
		}
		b.rotate()
		if n, err := r.Reseal(t.Context()); n != 1 || err != nil {
			t.Errorf("reseal = %d, %v", n, err)
		}
		b.decide(begun, "alice", true)
		stolen := r.beginDevice(alice)
		b.exec(`UPDATE cred_transactions SET verifier = (SELECT o.verifier FROM cred_transactions o WHERE o.id = ?) WHERE id = ?`, begun.Transaction, stolen.Transaction)
		_, err := r.pollNow(alice, stolen)
		wantCode(t, err, connector.CodeUnavailable)
		if n := b.polls(); n != 0 {
			t.Errorf("a code from another row was sent %d times", n)
		}
		got, err := r.pollNow(alice, begun)
		if err != nil || got.Connection.Account.Login != "alice" {
			t.Errorf("poll = %+v, %v", got, err)
		}
	})
}
