package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// callback is where a provider sends the browser back to.
func (c *Console) callback(w http.ResponseWriter, r *http.Request, s *session) {
	if prefetch(r) { // a guess of the browser must not spend the code
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if s == nil {
		// Neither code nor state is used or kept: whoever signs in next in this
		// browser need not be the one who started.
		c.refuse(w, r, nil, http.StatusUnauthorized, "You are not signed in here",
			"Nothing was connected. Sign in, and start again on your connections page.")
		return
	}
	var seen sighting
	con, err := c.cfg.Credentials.Finish(r.Context(), s.caller, s.browserKey(r.URL.EscapedPath()), r.URL.Query(), c.identify(&seen))
	if err == nil {
		c.log.InfoContext(r.Context(), "connected", "tenant", s.caller.Tenant, "connection", con.ID)
		http.Redirect(w, r, "/connections/"+url.PathEscape(string(con.ID))+"/connected", http.StatusSeeOther)
		return
	}
	c.log.InfoContext(r.Context(), "not connected", "tenant", s.caller.Tenant, "code", connector.CodeOf(err).String(), "err", err)
	e := connector.AsError(err)
	out := refusedConnect{Message: sentence(e.Report().Message), Provider: seen.provider, Scopes: e.Scopes}
	switch e.Code {
	case connector.CodeNotFound:
		out.Heading = "This sign-in was not started in this browser"
		out.Advice = "Only the browser that starts a sign-in can finish it. If somebody sent you a link to here, do not try again: they may want your account in their name."
	case connector.CodeGone:
		out.Heading, out.Advice = "This sign-in took too long", "Start again; you have ten minutes at the provider."
	case connector.CodeConflict:
		switch {
		case con.ID != "":
			out.Heading, out.Done = "This sign-in was used before", string(con.ID)
			out.Advice = "It was not used a second time."
		case seen.account.Subject != "":
			out.Heading, out.Account = "You signed in with another account", seen.account
			out.Advice = "To keep the old connection, sign out at the provider and connect again with the account you had. If you meant to use the other account, connect it beside the old one."
		default:
			out.Heading, out.Advice = "This sign-in was used before", "It was not used a second time. Start again."
		}
	case connector.CodePermissionDenied:
		switch {
		case e.Advice() == connector.NextAskPerson:
			out.Heading, out.Advice = "Access was declined at the provider", "If that was not what you meant, start again and allow it."
		case seen.account.Subject != "":
			out.Heading, out.Advice = "The account does not see what was asked for", "Start again with fewer projects, or with another account."
		default:
			out.Heading, out.Advice = "The answer came from another server", "It was not used. Start again; if it happens once more, tell your administrator: somebody may be between you and the provider."
		}
	case connector.CodeScopeRequired:
		out.Heading, out.Advice = "A permission is missing", "Start again and allow everything that is asked for."
	default:
		out.Heading, out.Advice = "The account could not be connected", advice(e)
	}
	c.render(w, r, s, e.Code.HTTPStatus(), "refused", page{Title: out.Heading, Command: "drawbridge connections"}, out)
}

// sighting is what was read with a fresh token, if it came that far.
type sighting struct {
	provider string
	account  connector.Account
}

// identify asks the provider, and keeps what it said for the page.
func (c *Console) identify(seen *sighting) credentials.Identify {
	return func(ctx context.Context, con connector.Connection) (connector.Identity, error) {
		seen.provider = con.Provider
		ask := c.cfg.Identify(con.Provider)
		if ask == nil {
			return connector.Identity{}, connector.Fail(connector.CodeUnavailable, "the provider is not set up")
		}
		who, err := ask(ctx, con)
		seen.account = who.Account
		return who, err
	}
}

// refusedConnect is what a person reads when nothing was connected.
type refusedConnect struct {
	Heading, Message, Advice string
	Provider                 string
	Account                  connector.Account // another one than was connected
	Done                     string            // the connection that an earlier use made
	Scopes                   []string
	Key                      bool // a key was entered, nobody signed in
}
