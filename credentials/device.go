package credentials

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

const (
	deviceGrantType = "urn:ietf:params:oauth:grant-type:device_code"
	// RFC 8628 section 3.2: what holds when the server does not say, and what
	// each slow_down adds (section 3.5).
	devicePoll    = 5 * time.Second
	devicePollCap = time.Minute
)

// A DeviceRequest asks for one sign-in at a provider by somebody who sits at a
// terminal and decides in a browser anywhere. The fields are those of
// BeginRequest.
type DeviceRequest struct {
	Provider   string
	Scopes     []string
	Resources  []string
	Connection connector.ConnectionID
}

// DeviceBegun is a sign-in that waits for a person. Show them UserCode and
// VerificationURL; both are checked to be harmless on a terminal. Formatting and
// logging leave the code out; JSON does not.
type DeviceBegun struct {
	Transaction     string
	UserCode        string
	VerificationURL string
	// CompleteURL carries the code with it. Empty: the provider has none.
	CompleteURL string
	ExpiresAt   time.Time
	Interval    time.Duration // to the first PollDevice
}

// Format writes the transaction id and the expiry.
func (b DeviceBegun) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "device sign-in %s until %s", b.Transaction, b.ExpiresAt.Format(time.RFC3339))
}

// LogValue is the transaction id.
func (b DeviceBegun) LogValue() slog.Value { return slog.StringValue(b.Transaction) }

// BeginDevice starts a sign-in by RFC 8628. It counts as one of the principal's
// open sign-ins, and lives as long as the provider says, TransactionTTL at most.
//
// Whoever is talked into entering somebody else's code connects their account
// to that other's principal (RFC 8628 section 5.4). Nothing here can tell; offer
// it only to principals whom you would let enter a static key.
func (s *Service) BeginDevice(ctx context.Context, caller connector.Caller, r DeviceRequest) (DeviceBegun, error) {
	configured := s.providers[r.Provider]
	switch {
	case caller.Tenant == "" || caller.Principal == "":
		return DeviceBegun{}, connector.Fail(connector.CodePermissionDenied, "a sign-in needs a signed-in principal")
	case configured == nil:
		return DeviceBegun{}, connector.Fail(connector.CodeNotFound, "no such provider")
	case configured.Kind != KindAuthorizationCode:
		return DeviceBegun{}, nobodySignsIn()
	}
	p, t, err := s.prepare(ctx, caller, wish{r.Provider, r.Scopes, r.Resources, r.Connection})
	if err != nil {
		return DeviceBegun{}, err
	}
	if p.DeviceURL == "" {
		return DeviceBegun{}, connector.Fail(connector.CodeInvalidInput, "this provider has no sign-in for terminals")
	}
	t.mode, t.browserHash = modeDevice, hash(randomState()) // nobody comes back with a browser
	// Before the provider is asked: the limit of open sign-ins is also one of
	// what a principal can make us ask.
	if err := s.open(ctx, t, hash(randomState())); err != nil {
		return DeviceBegun{}, storage(err)
	}
	d, code, err := s.askForCode(ctx, p, t)
	if err == nil {
		if err = s.storeCode(ctx, t, d); err == nil {
			return DeviceBegun{
				Transaction: t.id, UserCode: d.UserCode, VerificationURL: d.Page, CompleteURL: d.Complete,
				ExpiresAt: t.expiresAt, Interval: t.pollInterval,
			}, nil
		}
		code = "store"
	}
	s.endDevice(ctx, t, "open", code)
	return DeviceBegun{}, storage(err)
}

// deviceAnswer is RFC 8628 section 3.2.
type deviceAnswer struct {
	DeviceCode string          `json:"device_code"`
	UserCode   string          `json:"user_code"`
	Page       string          `json:"verification_uri"`
	Complete   string          `json:"verification_uri_complete"`
	Expires    json.RawMessage `json:"expires_in"`
	Interval   json.RawMessage `json:"interval"`
}

func (s *Service) askForCode(ctx context.Context, p *Provider, t *transaction) (deviceAnswer, string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.HTTPTimeout)
	defer cancel()
	form := url.Values{"scope": {strings.Join(t.scopes, p.separator())}}
	if p.Resource != "" {
		form.Set("resource", p.Resource)
	}
	r := s.post(ctx, p, p.DeviceURL, form)
	if r.status != http.StatusOK {
		a := classify(p, r)
		if a.class == classGranted { // a token, where none was asked for
			a.class, a.grant = classUnknown, nil
		}
		return deviceAnswer{}, string(a.class), signInFailure(a)
	}
	d, err := connector.DecodeJSON[deviceAnswer](connector.Response{Body: r.body})
	if err != nil || !validToken(d.DeviceCode) || !showable(d.UserCode, 64) || checkEndpoint(d.Page) != nil || !showable(d.Page, 1024) {
		return deviceAnswer{}, "bad_answer", connector.Fail(connector.CodeProviderContract, "the provider's answer to a terminal's sign-in is not usable")
	}
	if checkEndpoint(d.Complete) != nil || !showable(d.Complete, 1024) {
		d.Complete = "" // optional
	}
	return d, "", nil
}

// showable keeps a server from writing control sequences to a terminal.
func showable(text string, limit int) bool {
	if text == "" || len(text) > limit {
		return false
	}
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return true
}

func (s *Service) storeCode(ctx context.Context, t *transaction, d deviceAnswer) error {
	sealed, err := s.cfg.Keys.Seal([]byte(d.DeviceCode), t.place().deviceCode(t.id))
	if err != nil {
		return err
	}
	t.pollInterval = devicePoll
	if told := lifetime(d.Interval); told > 0 {
		t.pollInterval = min(told, devicePollCap)
	}
	return s.db.UpdateFor(ctx, scope(t.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		expires := t.expiresAt
		if told := lifetime(d.Expires); told > 0 && now.Add(told).Before(expires) {
			expires = now.Add(told)
		}
		n, err := tx.Exec(ctx, `UPDATE cred_transactions SET verifier = ?, poll_at = ?, poll_interval = ?, expires_at = ?
			WHERE tenant_id = ? AND id = ? AND status = 'open'`,
			sealed, millis(now.Add(t.pollInterval)), t.pollInterval.Milliseconds(), millis(expires), string(t.tenant), t.id)
		if err == nil && n == 0 {
			err = errNotOpen
		}
		t.expiresAt = expires
		return err
	})
}

// A DevicePoll is how far a device sign-in has come.
type DevicePoll struct {
	// Wait is how long to wait before asking again; while it is not zero nobody
	// has decided yet, and there is no connection.
	Wait       time.Duration
	Connection connector.Connection
}

// PollDevice asks the provider whether the person has decided, at most once per
// interval however often and in however many processes it is called, and makes
// the connection as Finish does: same account rules, once, nothing after an
// error. Trouble on the way to the provider is no answer: the wait grows.
//
// Errors as of Finish: PERMISSION_DENIED when the person declined, GONE when the
// time is over, CONFLICT with the connection when it was made before, NOT_FOUND
// for a transaction that is absent or somebody else's.
func (s *Service) PollDevice(ctx context.Context, caller connector.Caller, id string, identify Identify) (DevicePoll, error) {
	var none DevicePoll
	if !s.enter() {
		return none, unavailable(0, "the service is stopping")
	}
	defer s.running.Done()
	t := &transaction{tenant: caller.Tenant}
	err := sql.ErrNoRows
	if storable(id) {
		err = scanTransaction(s.db.QueryRowFor(ctx, scope(caller.Tenant), transactionQuery+` AND id = ? AND principal_id = ? AND mode = 'device'`,
			string(caller.Tenant), id, string(caller.Principal)), t)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return none, connector.Fail(connector.CodeNotFound, "this sign-in was not started here; start again")
	}
	if err != nil {
		return none, storage(err)
	}
	if t.status != "open" {
		if v, err := s.Show(ctx, caller, t.connection); err == nil && t.status == "completed" {
			none.Connection = v.Connection
		}
		return none, s.alreadyUsed(t)
	}
	wait, err := s.claimPoll(ctx, t)
	if err != nil || wait > 0 {
		return DevicePoll{Wait: wait}, storage(err)
	}
	// An answer that nobody takes would cost the grant.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishPatience)
	defer cancel()
	return s.poll(ctx, t, identify)
}

// claimPoll takes the turn to ask, or tells how long it is not to be had. While
// one asks nobody else does: two answers would mean that one of them got the
// tokens and the other a refusal.
func (s *Service) claimPoll(ctx context.Context, t *transaction) (wait time.Duration, err error) {
	err = s.db.UpdateFor(ctx, scope(t.tenant), func(tx *store.Tx) error {
		wait = 0
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if !now.Before(t.expiresAt) {
			return connector.Fail(connector.CodeGone, "this sign-in has expired; start again")
		}
		n, err := tx.Exec(ctx, `UPDATE cred_transactions SET poll_at = ? WHERE tenant_id = ? AND id = ? AND status = 'open'
			AND verifier IS NOT NULL AND poll_at <= ?`,
			millis(now.Add(s.cfg.Lease+t.pollInterval)), string(t.tenant), t.id, millis(now))
		if err == nil && n == 0 {
			wait = min(max(t.pollAt.Sub(now), time.Second), t.pollInterval)
		}
		return err
	})
	return wait, err
}

func (s *Service) poll(ctx context.Context, t *transaction, identify Identify) (DevicePoll, error) {
	p, why, err := s.settingsFit(ctx, t)
	if connector.CodeOf(err) == connector.CodeUnavailable {
		return s.pollLater(ctx, t, t.pollInterval)
	}
	if err != nil {
		s.endDevice(ctx, t, "open", why)
		return DevicePoll{}, storage(err)
	}
	code, err := s.cfg.Keys.Open(t.verifier, t.place().deviceCode(t.id))
	if err != nil {
		if errors.Is(err, keys.ErrIntegrity) {
			s.endDevice(ctx, t, "open", "integrity")
			return DevicePoll{}, storage(err)
		}
		// Without the key it is kept: somebody else may have it.
		_, later := s.pollLater(ctx, t, t.pollInterval)
		return DevicePoll{}, storage(errors.Join(err, later))
	}
	sendCtx, cancel := context.WithTimeout(ctx, s.cfg.HTTPTimeout)
	defer cancel()
	a, err := s.token(sendCtx, p, url.Values{"grant_type": {deviceGrantType}, "device_code": {string(code)}})
	switch {
	case err != nil:
		return DevicePoll{}, err
	case a.class == classGranted:
		c, why, err := s.keepGrant(ctx, t, p, a, identify, func() error {
			err := s.closeTransaction(ctx, t, "open", "consumed", "")
			if errors.Is(err, errNotOpen) {
				return connector.Fail(connector.CodeGone, "this sign-in has expired; start again")
			}
			return err
		})
		if err != nil {
			s.endDevice(ctx, t, "consumed", why)
		}
		return DevicePoll{Connection: c}, storage(err)
	case a.code == "authorization_pending":
		return s.pollLater(ctx, t, t.pollInterval)
	case a.code == "slow_down":
		return s.pollLater(ctx, t, t.pollInterval+devicePoll)
	case a.class == classNotSent, a.class == classUnknown, a.class == classThrottled:
		// RFC 8628 section 3.5: on trouble, ask less often.
		return s.pollLater(ctx, t, max(min(2*t.pollInterval, devicePollCap), min(a.retryAfter, devicePollCap)))
	}
	s.endDevice(ctx, t, "open", a.code)
	switch a.code {
	case "access_denied":
		return DevicePoll{}, refusedByPerson(a.code)
	case "expired_token":
		return DevicePoll{}, connector.Fail(connector.CodeGone, "this sign-in has expired; start again")
	}
	return DevicePoll{}, signInFailure(a)
}

// pollLater gives the turn back.
func (s *Service) pollLater(ctx context.Context, t *transaction, interval time.Duration) (DevicePoll, error) {
	err := s.db.UpdateFor(ctx, scope(t.tenant), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE cred_transactions SET poll_at = ?, poll_interval = ? WHERE tenant_id = ? AND id = ? AND status = 'open'`,
			millis(now.Add(interval)), interval.Milliseconds(), string(t.tenant), t.id)
		return err
	})
	return DevicePoll{Wait: interval}, storage(err)
}

func (s *Service) endDevice(ctx context.Context, t *transaction, from, result string) {
	if err := s.closeTransaction(context.WithoutCancel(ctx), t, from, "failed", result); err != nil {
		s.log.WarnContext(ctx, "result of a sign-in was not stored", "transaction", t.id, "result", result)
	}
}
