package console

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// How long links work. A connect link may be opened again until then: the first
// try at a provider can fail.
const (
	localLinkTTL   = 10 * time.Minute
	keyFormTTL     = 10 * time.Minute
	connectLinkTTL = 30 * time.Minute
)

const (
	kindSignIn  = "signin"
	kindConnect = "connect"
	kindKey     = "key"
)

// A link is a row of console_link, without its token.
type link struct {
	kind     string
	owner    connector.Caller // with the connection to be renewed, if there is one
	provider string
	scopes   []string // nil: the usual ones
	browser  string   // secret of the only browser that may use it; empty: any
	life     time.Duration
}

// LocalLink makes a link that signs the local person in, once and within ten
// minutes. It is a secret: print it where only that person looks.
func (c *Console) LocalLink(ctx context.Context) (string, error) {
	if c.cfg.Local.Tenant == "" {
		return "", connector.Fail(connector.CodePermissionDenied, "there is no local person here")
	}
	token, err := c.keepLink(ctx, link{kind: kindSignIn, owner: c.cfg.Local, life: localLinkTTL})
	if err != nil {
		return "", err
	}
	return c.base.String() + "/signin/local?" + url.Values{"t": {token}}.Encode(), nil
}

// ConnectLink makes a link with which exactly this caller, once signed in, can
// connect an account, within half an hour. It holds a random token and nothing
// else; another person who opens it is refused. Nil scopes are the provider's usual
// ones; a connection in the caller is renewed instead of a new one being made.
// NOT_FOUND: no such provider. PERMISSION_DENIED: a scope that may not be asked for.
func (c *Console) ConnectLink(ctx context.Context, caller connector.Caller, provider string, scopes []string) (string, error) {
	if !storable(string(caller.Tenant)) || !storable(string(caller.Principal)) {
		return "", connector.Fail(connector.CodePermissionDenied, "a connect link is for somebody")
	}
	p, ok := c.provider(provider)
	if !ok {
		return "", connector.Fail(connector.CodeNotFound, "no such provider")
	}
	if _, err := p.ask(scopes); err != nil {
		return "", err
	}
	token, err := c.keepLink(ctx, link{kind: kindConnect, owner: caller, provider: provider, scopes: scopes, life: connectLinkTTL})
	if err != nil {
		return "", err
	}
	return c.base.String() + connectPath(token), nil
}

func connectPath(token string) string { return "/connect?" + url.Values{"t": {token}}.Encode() }

func (c *Console) keepLink(ctx context.Context, l link) (string, error) {
	scopes, err := json.Marshal(l.scopes)
	if err != nil {
		return "", err
	}
	token := rand.Text()
	err = c.cfg.DB.UpdateFor(ctx, store.Tenant(string(l.owner.Tenant)), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO console_link (token_hash, kind, tenant, principal, provider, scopes, connection, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, hash(l.browser+token), l.kind, string(l.owner.Tenant), string(l.owner.Principal), l.provider,
			string(scopes), string(l.owner.Connection), now.Add(l.life).UnixMilli())
		return err
	})
	return token, storage(err)
}

var errNoLink = connector.Fail(connector.CodeGone, "this link is not known here, was used before, or has expired")

// connectLink reads a connect link that still works. Whose it is comes out of the row.
func (c *Console) connectLink(ctx context.Context, token string) (link, error) {
	l := link{kind: kindConnect}
	var scopes string
	var expires int64
	err := c.cfg.DB.QueryRowFor(ctx, store.AllTenants(), `SELECT tenant, principal, provider, scopes, connection, expires_at FROM console_link
		WHERE token_hash = ? AND kind = ?`, hash(token), kindConnect).
		Scan(&l.owner.Tenant, &l.owner.Principal, &l.provider, &scopes, &l.owner.Connection, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return l, errNoLink
	}
	if err != nil {
		return l, storage(err)
	}
	now, err := c.cfg.DB.Now(ctx)
	if err != nil {
		return l, storage(err)
	}
	if !now.Before(time.UnixMilli(expires)) {
		return l, errNoLink
	}
	return l, json.Unmarshal([]byte(scopes), &l.scopes)
}

// useLocalLink takes a sign-in link, once.
func (c *Console) useLocalLink(ctx context.Context, token string) (connector.Caller, error) {
	var owner connector.Caller
	err := c.cfg.DB.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		// One statement decides who was first.
		err = tx.QueryRow(ctx, `DELETE FROM console_link WHERE token_hash = ? AND kind = ? AND expires_at > ? RETURNING tenant, principal`,
			hash(token), kindSignIn, now.UnixMilli()).Scan(&owner.Tenant, &owner.Principal)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoLink
		}
		return err
	})
	return owner, storage(err)
}
