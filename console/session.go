package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// A session ends when it was not used for sessionIdle, and at sessionMax whatever
// happens. seenEvery spares a write for each page.
const (
	sessionIdle = time.Hour
	sessionMax  = 12 * time.Hour
	seenEvery   = time.Minute
)

// A session is one browser in which somebody is signed in.
type session struct {
	token  string // what the cookie holds
	caller connector.Caller
	name   string // for people
}

// derive makes a secret for one purpose out of the token. Who sees it learns
// nothing about the token or another purpose.
func (s *session) derive(purpose string) string {
	mac := hmac.New(sha256.New, []byte(s.token))
	mac.Write([]byte(purpose))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (s *session) csrf() string { return s.derive("csrf") }

// browserKey ties a sign-in at a provider to this browser and to the path that the
// provider's answer must arrive on.
func (s *session) browserKey(callback string) string { return s.derive("connect " + callback) }

// cookieName has the prefix that makes browsers refuse the cookie from anybody but
// this very host over https. It needs Secure, which plain http can't have.
func (c *Console) cookieName(what string) string {
	if c.secure() {
		return "__Host-drawbridge-" + what
	}
	return "drawbridge-" + what
}

// setCookie lasts until the browser closes; the database knows when it ends. An
// empty value removes it.
func (c *Console) setCookie(w http.ResponseWriter, what, value string) {
	cookie := &http.Cookie{Name: c.cookieName(what), Value: value, Path: "/", Secure: c.secure(), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// session finds who asks. Nil: nobody who is signed in.
func (c *Console) session(r *http.Request) (*session, error) {
	cookie, err := r.Cookie(c.cookieName("session"))
	if err != nil || cookie.Value == "" {
		return nil, nil
	}
	ctx := r.Context()
	s := &session{token: cookie.Value}
	var seen, expires int64
	err = c.cfg.DB.QueryRowFor(ctx, store.AllTenants(), `SELECT tenant, principal, name, seen_at, expires_at FROM console_session WHERE token_hash = ?`,
		hash(s.token)).Scan(&s.caller.Tenant, &s.caller.Principal, &s.name, &seen, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, storage(err)
	}
	now, err := c.cfg.DB.Now(ctx)
	if err != nil {
		return nil, storage(err)
	}
	idle := now.Sub(time.UnixMilli(seen))
	if !now.Before(time.UnixMilli(expires)) || idle >= sessionIdle {
		return nil, nil
	}
	if idle >= seenEvery {
		err := c.cfg.DB.UpdateFor(ctx, store.Tenant(string(s.caller.Tenant)), func(tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE console_session SET seen_at = ? WHERE token_hash = ?`, now.UnixMilli(), hash(s.token))
			return err
		})
		if err != nil {
			return nil, storage(err)
		}
	}
	return s, nil
}

// signIn starts a session under a token that nobody can have known before, and ends
// the one that this browser had: a cookie that an attacker planted is worth
// nothing after the sign-in (fixation).
func (c *Console) signIn(ctx context.Context, w http.ResponseWriter, old *session, caller connector.Caller, name string) error {
	if !storable(string(caller.Tenant)) || !storable(string(caller.Principal)) {
		return connector.Fail(connector.CodePermissionDenied, "the sign-in does not say who you are")
	}
	s := session{token: rand.Text()}
	// The session before may be another tenant's, and what has expired is anyone's.
	err := c.cfg.DB.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if old != nil {
			if _, err := tx.Exec(ctx, `DELETE FROM console_session WHERE token_hash = ?`, hash(old.token)); err != nil {
				return err
			}
		}
		for _, table := range []string{"console_session", "console_link"} {
			if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE expires_at <= ?`, now.UnixMilli()); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `INSERT INTO console_session (token_hash, tenant, principal, name, created_at, seen_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?)`, hash(s.token), string(caller.Tenant), string(caller.Principal), name,
			now.UnixMilli(), now.UnixMilli(), now.Add(sessionMax).UnixMilli())
		return err
	})
	if err != nil {
		return storage(err)
	}
	c.setCookie(w, "session", s.token)
	c.log.InfoContext(ctx, "signed in", "tenant", caller.Tenant, "principal", caller.Principal)
	return nil
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request, s *session) {
	ctx := r.Context()
	err := c.cfg.DB.UpdateFor(ctx, store.Tenant(string(s.caller.Tenant)), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM console_session WHERE token_hash = ?`, hash(s.token))
		return err
	})
	if err != nil {
		c.fail(w, r, s, storage(err))
		return
	}
	c.setCookie(w, "session", "")
	http.Redirect(w, r, "/signin", http.StatusSeeOther)
}

func hash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// storable is a name as both databases keep it and a log line can hold it.
func storable(name string) bool {
	return name != "" && len(name) <= 512 && utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}

// storage hides the database's own words from people.
func storage(err error) error {
	if err == nil {
		return nil
	}
	var known *connector.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &connector.Error{Code: connector.CodeUnavailable, Message: "the database can not be used at the moment", Err: err}
}
