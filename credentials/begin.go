package credentials

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// maxOpen is how many sign-ins one principal can have under way.
const maxOpen = 5

// An incremental authorization that did not bring what was asked for will not
// do so the tenth time, and a host in a loop would keep sending its person to
// the provider.
const (
	maxStepUps   = 2
	stepUpWindow = time.Hour
)

// A BeginRequest asks for one sign-in at a provider.
type BeginRequest struct {
	Provider string
	// RedirectURI is where the provider sends the browser: https, or http on a
	// loopback literal. It must be registered there.
	RedirectURI string
	// Scopes to ask for. Nil: the provider's usual ones. A reconnect asks for
	// these beside what the connection asked for before, because a new token
	// replaces the old one.
	Scopes []string
	// Resources are the only containers that the connection may touch. Nil:
	// all that the account sees; for a reconnect, the same wish as before.
	Resources []string
	// Connection is renewed instead of a new one being made. The account at
	// the provider must be the same.
	Connection connector.ConnectionID
	// BrowserKey is a secret of the browser that starts, from a cookie. The
	// callback must come with the same. Required.
	BrowserKey string
}

// Begun is a sign-in under way. The URL is for the initiator's browser only:
// it carries the state. Formatting and logging leave it out; JSON does not.
type Begun struct {
	Transaction string
	URL         string
	ExpiresAt   time.Time
}

// Format writes the transaction id and the expiry.
func (b Begun) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "sign-in %s until %s", b.Transaction, b.ExpiresAt.Format(time.RFC3339))
}

// LogValue is the transaction id.
func (b Begun) LogValue() slog.Value { return slog.StringValue(b.Transaction) }

// transaction is a row of cred_transactions.
type transaction struct {
	id            string
	mode          string
	tenant        connector.TenantID
	principal     connector.PrincipalID
	browserHash   []byte
	provider      string
	client        string
	issuer        string
	issAdvertised bool
	tokenURL      string
	redirectURI   string
	resource      string
	scopes        []string
	wanted        []string // nil: everything visible
	reconnect     connector.ConnectionID
	stepUp        []string // of an incremental authorization: what it is about, sorted
	verifier      []byte
	status        string
	result        string
	connection    connector.ConnectionID
	expiresAt     time.Time
	pollAt        time.Time // of a device
	pollInterval  time.Duration
}

// The ways of a transaction. One of a set-up counts as a browser's.
const (
	modeBrowser = "browser"
	modeDevice  = "device"
)

func (t *transaction) place() place {
	return place{tenant: t.tenant, issuer: t.issuer, client: t.client}
}

// Begin starts a sign-in. The state is 256 random bits of which the database
// keeps a hash, the PKCE verifier is kept sealed, and everything that the
// callback will be compared with is fixed now. More than five open sign-ins of
// one principal are RATE_LIMITED, and so is asking for the same missing scopes of
// one connection for the third time in an hour; that error names them.
func (s *Service) Begin(ctx context.Context, caller connector.Caller, r BeginRequest) (Begun, error) {
	p := s.providers[r.Provider]
	switch {
	case caller.Tenant == "" || caller.Principal == "":
		return Begun{}, connector.Fail(connector.CodePermissionDenied, "a sign-in needs a signed-in principal")
	case p == nil:
		return Begun{}, connector.Fail(connector.CodeNotFound, "no such provider")
	case p.Kind != KindAuthorizationCode:
		return Begun{}, nobodySignsIn()
	case len(r.BrowserKey) < 16:
		return Begun{}, connector.Fail(connector.CodeInvalidInput, "a sign-in needs a browser key of at least 16 bytes")
	case checkEndpoint(r.RedirectURI) != nil || !storable(r.RedirectURI):
		return Begun{}, connector.Fail(connector.CodeInvalidInput, "the redirect URI must be https or http on a loopback address, without fragment")
	}
	p, t, err := s.prepare(ctx, caller, wish{r.Provider, r.Scopes, r.Resources, r.Connection})
	if err != nil {
		return Begun{}, err
	}
	t.mode, t.browserHash, t.issAdvertised, t.redirectURI = modeBrowser, hash(r.BrowserKey), p.IssAdvertised, r.RedirectURI
	state := randomState()
	verifier := oauth2.GenerateVerifier()
	if t.verifier, err = s.cfg.Keys.Seal([]byte(verifier), t.place().verifier(t.id)); err != nil {
		return Begun{}, storage(err)
	}
	if err := s.open(ctx, t, hash(state)); err != nil {
		return Begun{}, storage(err)
	}
	return Begun{Transaction: t.id, URL: authorizationURL(p, t, state, verifier), ExpiresAt: t.expiresAt}, nil
}

// A wish is what every way to connect is asked for.
type wish struct {
	provider   string
	scopes     []string
	resources  []string
	connection connector.ConnectionID
}

// prepare checks a wish against the administrator's settings and against the
// connection to renew, and fixes what does not depend on the way to connect.
func (s *Service) prepare(ctx context.Context, caller connector.Caller, w wish) (*Provider, *transaction, error) {
	p := s.providers[w.provider]
	scopes, wanted, more := w.scopes, slices.Clone(w.resources), []string(nil)
	if scopes == nil {
		scopes = p.Scopes
	}
	if refused := without(scopes, slices.Concat(p.Scopes, p.MoreScopes)); len(refused) > 0 {
		e := connector.Fail(connector.CodePermissionDenied, "the administrator does not let this be asked for")
		e.Scopes = refused
		return nil, nil, e
	}
	if w.connection != "" {
		var err error
		if scopes, wanted, more, err = s.renewing(ctx, caller, w, scopes, wanted); err != nil {
			return nil, nil, err
		}
	}
	p, err := s.provider(ctx, p.ID)
	if err != nil {
		return nil, nil, err
	}
	return p, &transaction{
		id: rand.Text(), tenant: caller.Tenant, principal: caller.Principal,
		provider: p.ID, client: p.ClientID, issuer: p.Issuer, tokenURL: p.TokenURL, resource: p.Resource,
		scopes: scopes, wanted: wanted, reconnect: w.connection, stepUp: more,
	}, nil
}

func nobodySignsIn() error {
	return connector.Fail(connector.CodeInvalidInput, "nobody signs in at this provider; its credential is set up by an operator")
}

func randomState() string {
	var b [32]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func hash(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func authorizationURL(p *Provider, t *transaction, state, verifier string) string {
	c := oauth2.Config{
		ClientID: p.ClientID, Endpoint: oauth2.Endpoint{AuthURL: p.AuthorizationURL}, RedirectURL: t.redirectURI, Scopes: t.scopes,
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	if p.separator() != " " {
		options = append(options, oauth2.SetAuthURLParam("scope", strings.Join(t.scopes, p.separator())))
	}
	if t.resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", t.resource))
	}
	for name, value := range p.AuthParams {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	return c.AuthCodeURL(state, options...)
}

// renewing completes a request for a connection that exists. more are the
// scopes that it names and the connection was not granted.
func (s *Service) renewing(ctx context.Context, caller connector.Caller, w wish, scopes, wanted []string) (ask, want, more []string, err error) {
	if !storable(string(w.connection)) {
		return nil, nil, nil, notConnected()
	}
	var requested, granted, old string
	err = s.db.QueryRowFor(ctx, scope(caller.Tenant), `SELECT requested_scopes, granted_scopes, wanted FROM cred_connections
		WHERE tenant_id = ? AND id = ? AND principal_id = ? AND provider_id = ? AND status NOT IN ('disconnecting', 'disconnected')`,
		string(caller.Tenant), string(w.connection), string(caller.Principal), w.provider).Scan(&requested, &granted, &old)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil, nil, notConnected()
	}
	if err != nil {
		return nil, nil, nil, storage(err)
	}
	before := unlist(requested)
	if w.scopes == nil {
		scopes = before
	} else {
		more = without(scopes, unlist(granted))
		slices.Sort(more)
		scopes = union(before, scopes)
	}
	if wanted == nil {
		wanted = unlist(old)
	}
	return scopes, wanted, more, nil
}

// open stores the transaction in a free slot. The unique index on open slots
// makes the limit hold against any number of processes.
func (s *Service) open(ctx context.Context, t *transaction, stateHash []byte) error {
	wanted, err := json.Marshal(t.wanted)
	if err != nil {
		return err
	}
	for range 2 * maxOpen {
		err := s.db.UpdateFor(ctx, scope(t.tenant), func(tx *store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE cred_transactions SET status = 'expired', verifier = NULL
				WHERE tenant_id = ? AND principal_id = ? AND status = 'open' AND expires_at <= ?`,
				string(t.tenant), string(t.principal), millis(now)); err != nil {
				return err
			}
			slot, oldest, err := freeSlot(ctx, tx, t)
			if err != nil {
				return err
			}
			if slot == maxOpen {
				e := connector.Fail(connector.CodeRateLimited, "too many sign-ins are open; finish or abandon one")
				e.RetryAfter = oldest.Sub(now)
				return e
			}
			if err := mayStepUp(ctx, tx, t, now); err != nil {
				return err
			}
			t.expiresAt = now.Add(s.cfg.TransactionTTL)
			_, err = tx.Exec(ctx, `INSERT INTO cred_transactions (tenant_id, id, state_hash, principal_id, browser_hash, provider_id,
				client_id, issuer, iss_advertised, token_url, redirect_uri, resource, scopes, wanted, reconnect, verifier, slot,
				status, result, connection_id, created_at, expires_at, mode, step_up)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', '', '', ?, ?, ?, ?)`,
				string(t.tenant), t.id, stateHash, string(t.principal), t.browserHash, t.provider,
				t.client, t.issuer, flag(t.issAdvertised), t.tokenURL, t.redirectURI, t.resource, list(t.scopes), string(wanted),
				string(t.reconnect), t.verifier, slot, millis(now), millis(t.expiresAt), t.mode, strings.Join(t.stepUp, " "))
			if err != nil {
				return err
			}
			return audit(ctx, tx, now, t.tenant, event{actor: string(t.principal), action: "connect.begin", connection: t.reconnect, result: t.id})
		})
		if !store.IsUnique(err) {
			return err
		}
	}
	return connector.Fail(connector.CodeRateLimited, "too many sign-ins are open; finish or abandon one")
}

// mayStepUp lets the same scopes be asked for the same connection twice an
// hour. One that was begun and left alone stops counting when it has expired.
func mayStepUp(ctx context.Context, tx *store.Tx, t *transaction, now time.Time) error {
	if len(t.stepUp) == 0 {
		return nil
	}
	// Whoever counts holds the connection's row: two counts at once would both
	// find room for the last one.
	if _, err := tx.Exec(ctx, `UPDATE cred_connections SET updated_at = updated_at WHERE tenant_id = ? AND id = ?`,
		string(t.tenant), string(t.reconnect)); err != nil {
		return err
	}
	var n int
	var oldest int64
	if err := tx.QueryRow(ctx, `SELECT count(*), coalesce(min(created_at), 0) FROM cred_transactions
		WHERE tenant_id = ? AND reconnect = ? AND step_up = ? AND step_up <> '' AND status <> 'expired' AND created_at > ?`,
		string(t.tenant), string(t.reconnect), strings.Join(t.stepUp, " "), millis(now.Add(-stepUpWindow))).Scan(&n, &oldest); err != nil {
		return err
	}
	if n < maxStepUps {
		return nil
	}
	e := connector.Fail(connector.CodeRateLimited, "these scopes were asked for twice within an hour; whoever may grant them has not")
	e.Scopes, e.RetryAfter = t.stepUp, fromMillis(oldest).Add(stepUpWindow).Sub(now)
	return e
}

// freeSlot picks one at random, so that several processes seldom pick the same.
// It returns maxOpen, and when the oldest one ends, if none is free.
func freeSlot(ctx context.Context, tx *store.Tx, t *transaction) (slot int, oldest time.Time, err error) {
	rows, err := tx.Query(ctx, `SELECT slot, expires_at FROM cred_transactions
		WHERE tenant_id = ? AND principal_id = ? AND status = 'open'`, string(t.tenant), string(t.principal))
	if err != nil {
		return 0, time.Time{}, err
	}
	defer rows.Close()
	var taken [maxOpen]bool
	for rows.Next() {
		var n int
		var expires int64
		if err := rows.Scan(&n, &expires); err != nil {
			return 0, time.Time{}, err
		}
		if n >= 0 && n < maxOpen {
			taken[n] = true
		}
		if at := fromMillis(expires); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	for _, n := range mathrand.Perm(maxOpen) {
		if !taken[n] {
			return n, oldest, rows.Err()
		}
	}
	return maxOpen, oldest, rows.Err()
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
