package console

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/store"
)

// keyForm is a wish and the token of the one form that may fulfil it.
type keyForm struct {
	wish
	Token string
}

// keyPage begins a transaction that ends with a key instead of a sign-in at the
// provider. It is bound to the session, as the state of a sign-in is.
func (c *Console) keyPage(w http.ResponseWriter, r *http.Request, s *session, wanted wish) {
	l := link{kind: kindKey, owner: s.caller, provider: wanted.Provider.Name, scopes: wanted.names, browser: s.keyBrowser(), life: keyFormTTL}
	if wanted.Connection != nil {
		l.owner.Connection = wanted.Connection.Connection.ID
	}
	token, err := c.keepLink(r.Context(), l)
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.render(w, r, s, http.StatusOK, "key", page{Title: "Enter a key of " + wanted.Provider.Title}, keyForm{wanted, token})
}

func (s *session) keyBrowser() string { return s.derive("key form") }

// connectKey takes the key. It is read from the body alone, and nothing that fails
// from here on says or shows it.
func (c *Console) connectKey(w http.ResponseWriter, r *http.Request, s *session) {
	ctx := r.Context()
	key := credentials.NewSecret(strings.TrimSpace(r.PostForm.Get("key")))
	if key.IsZero() {
		c.fail(w, r, s, connector.Fail(connector.CodeInvalidInput, "no key was entered"))
		return
	}
	l, err := c.useKeyForm(ctx, s, r.PostForm.Get("t"))
	if err != nil {
		c.refuseKey(w, r, s, sighting{}, err)
		return
	}
	// The administrator may have taken back what the page offered.
	p, ok := c.provider(l.provider)
	if !ok || !p.Key {
		c.fail(w, r, s, connector.Fail(connector.CodeNotFound, "no such provider"))
		return
	}
	if _, err := p.ask(l.scopes); err != nil {
		c.fail(w, r, s, err)
		return
	}
	var seen sighting
	con, err := c.cfg.Credentials.Setup(ctx, s.caller, credentials.SetupRequest{
		Provider: l.provider, Scopes: l.scopes, Resources: projects(r.PostForm.Get("projects")), Connection: l.owner.Connection, Key: key,
	}, c.identify(&seen))
	if err != nil {
		c.refuseKey(w, r, s, seen, err)
		return
	}
	c.log.InfoContext(ctx, "connected with a key", "tenant", s.caller.Tenant, "connection", con.ID)
	http.Redirect(w, r, "/connections/"+url.PathEscape(string(con.ID))+"/connected", http.StatusSeeOther)
}

var errNoKeyForm = connector.Fail(connector.CodeGone, "this form was used before, has expired, or belongs to another browser")

// useKeyForm takes the form's token, once, from the session that it was made for.
func (c *Console) useKeyForm(ctx context.Context, s *session, token string) (link, error) {
	l := link{kind: kindKey, owner: s.caller}
	var scopes string
	err := c.cfg.DB.UpdateFor(ctx, store.Tenant(string(s.caller.Tenant)), func(tx *store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		// One statement decides who was first.
		err = tx.QueryRow(ctx, `DELETE FROM console_link WHERE token_hash = ? AND kind = ? AND tenant = ? AND principal = ? AND expires_at > ?
			RETURNING provider, scopes, connection`, hash(s.keyBrowser()+token), kindKey, string(s.caller.Tenant), string(s.caller.Principal),
			now.UnixMilli()).Scan(&l.provider, &scopes, &l.owner.Connection)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoKeyForm
		}
		return err
	})
	if err != nil {
		return l, storage(err)
	}
	return l, json.Unmarshal([]byte(scopes), &l.scopes)
}

// refuseKey says why nothing was connected. The form is used up: the key would have
// to be on the page to be corrected there.
func (c *Console) refuseKey(w http.ResponseWriter, r *http.Request, s *session, seen sighting, err error) {
	c.log.InfoContext(r.Context(), "not connected with a key", "tenant", s.caller.Tenant, "code", connector.CodeOf(err).String(), "err", err)
	e := connector.AsError(err)
	out := refusedConnect{Heading: "The account could not be connected", Message: sentence(e.Report().Message), Advice: advice(e), Provider: seen.provider, Scopes: e.Scopes, Key: true}
	switch {
	case err == errNoKeyForm:
		out.Heading, out.Advice = "This form no longer works", "The key was not used and not kept. Start again on your connections page."
	case e.Code == connector.CodeConnectionRequired:
		out.Heading, out.Message, out.Advice = "The provider does not accept this key", "It was not kept.", "Make a new one there, and start again."
	case e.Code == connector.CodeConflict && seen.account.Subject != "":
		out.Heading, out.Account = "This is the key of another account", seen.account
		out.Advice = "To keep the old connection, enter a key of the account you had. If you meant to use the other account, connect it beside the old one."
	case e.Code == connector.CodePermissionDenied && seen.account.Subject != "":
		out.Heading, out.Advice = "The account does not see what was asked for", "Start again with fewer projects, or with a key of another account."
	}
	c.render(w, r, s, e.Code.HTTPStatus(), "refused", page{Title: out.Heading, Command: "drawbridge connections"}, out)
}
