package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

// wish is one connection that somebody is about to make, as page and button see it.
type wish struct {
	Link       string // token of the connect link that led here, or empty
	Provider   Provider
	Scopes     []Scope            // what is asked for
	New        []Scope            // what is asked for as well, because a call lacked it
	Connection *credentials.View  // is renewed; nil: a new one
	Others     []credentials.View // connections to this provider that could be renewed instead

	names []string // of scopes, as Begin wants them; nil: the usual ones, or those of the connection
}

// wanted reads what a page or form asks to connect: a link's wish, or a provider
// and perhaps one of the person's own connections.
func (c *Console) wanted(ctx context.Context, s *session, q url.Values) (wish, error) {
	w := wish{Link: q.Get("t")}
	name, renew := q.Get("provider"), connector.ConnectionID(q.Get("connection"))
	if w.Link != "" {
		l, err := c.connectLink(ctx, w.Link)
		if err != nil {
			return w, err
		}
		if l.owner.Tenant != s.caller.Tenant || l.owner.Principal != s.caller.Principal {
			return w, errOthersLink
		}
		name, w.names = l.provider, l.scopes
		if l.owner.Connection != "" {
			renew = l.owner.Connection
		}
	}
	var err error
	if renew != "" {
		v, err := c.cfg.Credentials.Show(ctx, s.caller, renew)
		if err != nil {
			return w, absentConnection(err)
		}
		if name == "" {
			name = v.Connection.Provider
		}
		if v.Connection.Provider != name || !live(v) {
			return w, connector.Fail(connector.CodeNotFound, "no such connection")
		}
		w.Connection = &v
	} else if w.Others, err = c.liveAt(ctx, s, name); err != nil {
		return w, err
	} else if w.names != nil && len(w.Others) == 1 {
		// The only one that a call which lacked a permission can have run under.
		w.Connection, w.Others = &w.Others[0], nil
	}
	p, ok := c.provider(name)
	if !ok {
		return w, connector.Fail(connector.CodeNotFound, "no such provider")
	}
	w.Provider = p
	asked, err := p.ask(w.names)
	if err != nil {
		return w, err
	}
	if w.Connection == nil {
		w.Scopes, w.names = asked, nil
		for _, s := range asked { // what the page shows is what is asked for
			w.names = append(w.names, s.Name)
		}
		return w, nil
	}
	for _, scope := range withRequested(p, w) {
		if slices.Contains(w.names, scope.Name) && !slices.Contains(w.Connection.Connection.Scopes, scope.Name) {
			w.New = append(w.New, scope)
		} else {
			w.Scopes = append(w.Scopes, scope)
		}
	}
	return w, nil
}

// liveAt are the person's connections to a provider that could be renewed.
func (c *Console) liveAt(ctx context.Context, s *session, provider string) ([]credentials.View, error) {
	all, err := c.cfg.Credentials.List(ctx, s.caller)
	return slices.DeleteFunc(all, func(v credentials.View) bool { return v.Connection.Provider != provider || !live(v) }), err
}

// withRequested is what a renewal asks for: what the connection asked for before,
// because a new token replaces the old one, and what the link adds.
func withRequested(p Provider, w wish) []Scope {
	reasons := map[string]Scope{}
	for _, s := range p.Scopes {
		reasons[s.Name] = s
	}
	var asked []Scope
	seen := map[string]bool{}
	add := func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if s, ok := reasons[name]; ok {
			asked = append(asked, s)
		} else {
			asked = append(asked, Scope{Name: name})
		}
	}
	for _, name := range w.Connection.RequestedScopes {
		add(name)
	}
	for _, name := range w.names {
		add(name)
	}
	return asked
}

// errOthersLink names nobody: the link's owner is not this person's business.
var errOthersLink = connector.Fail(connector.CodePermissionDenied, "this link was made for another person")

func live(v credentials.View) bool {
	return v.Status != credentials.StatusDisconnecting && v.Status != credentials.StatusDisconnected
}

func (c *Console) connectPage(w http.ResponseWriter, r *http.Request, s *session) {
	q := r.URL.Query()
	if q.Get("t") == "" && q.Get("provider") == "" && q.Get("connection") == "" {
		var all []Provider
		for _, p := range c.cfg.Providers() {
			all = append(all, p.complete())
		}
		c.render(w, r, s, http.StatusOK, "providers", page{Title: "Connect an account", Command: "drawbridge connect"}, all)
		return
	}
	wanted, err := c.wanted(r.Context(), s, q)
	if err != nil {
		c.failConnect(w, r, s, err)
		return
	}
	p := page{Title: "Connect " + wanted.Provider.Title, Command: "drawbridge connect --provider " + wanted.Provider.Name}
	if wanted.Connection != nil {
		p.Title = "Connect " + wanted.Provider.Title + " again"
		p.Command += " --connection " + string(wanted.Connection.Connection.ID)
	}
	c.render(w, r, s, http.StatusOK, "connect", p, wanted)
}

func (c *Console) connectStart(w http.ResponseWriter, r *http.Request, s *session) {
	wanted, err := c.wanted(r.Context(), s, r.PostForm)
	if err != nil {
		c.failConnect(w, r, s, err)
		return
	}
	if wanted.Provider.Key {
		c.keyPage(w, r, s, wanted)
		return
	}
	request := credentials.BeginRequest{
		Provider: wanted.Provider.Name, RedirectURI: c.base.String() + wanted.Provider.Callback, Scopes: wanted.names,
		Resources: projects(r.PostForm.Get("projects")), BrowserKey: s.browserKey(wanted.Provider.Callback),
	}
	if wanted.Connection != nil {
		request.Connection = wanted.Connection.Connection.ID
	}
	begun, err := c.cfg.Credentials.Begin(r.Context(), s.caller, request)
	if err != nil {
		c.failConnect(w, r, s, err)
		return
	}
	c.render(w, r, s, http.StatusOK, "leave", page{Title: "On to " + wanted.Provider.Title, Onward: begun.URL}, nil)
}

// projects reads a list that somebody typed. Nil, and not an empty list: no limit.
func projects(text string) []string {
	var ids []string
	for id := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		ids = append(ids, id)
	}
	return ids
}

// failConnect explains what a connect page can fail with.
func (c *Console) failConnect(w http.ResponseWriter, r *http.Request, s *session, err error) {
	if err == errOthersLink {
		c.refuse(w, r, s, http.StatusForbidden, "This link was made for another person",
			"Nothing was connected, and the link still works for the person it was made for. Connecting your account through it would have put it into somebody else's hands. If you want to connect your own account, start on your own connections page.")
		return
	}
	c.fail(w, r, s, err)
}

// prefetch reports a request for a page that nobody will read.
func prefetch(r *http.Request) bool {
	return r.Method == http.MethodHead || strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") || strings.Contains(r.Header.Get("Purpose"), "prefetch")
}
