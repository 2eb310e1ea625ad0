package console

import (
	"net/http"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/credentials"
)

func (c *Console) connections(w http.ResponseWriter, r *http.Request, s *session) {
	views, err := c.cfg.Credentials.List(r.Context(), s.caller)
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	slices.Reverse(views) // newest first
	c.render(w, r, s, http.StatusOK, "connections", page{Title: "Connections", Command: "drawbridge connections"}, views)
}

// ownConnection reads one of the person's own connections, or answers.
func (c *Console) ownConnection(w http.ResponseWriter, r *http.Request, s *session) (credentials.View, bool) {
	v, err := c.cfg.Credentials.Show(r.Context(), s.caller, connector.ConnectionID(r.PathValue("id")))
	if err != nil {
		c.fail(w, r, s, absentConnection(err))
		return v, false
	}
	return v, true
}

// absentConnection turns the tools' word for "not yours or not there" into the pages'.
func absentConnection(err error) error {
	if connector.CodeOf(err) == connector.CodeConnectionRequired {
		return connector.Fail(connector.CodeNotFound, "no such connection")
	}
	return err
}

func (c *Console) connection(w http.ResponseWriter, r *http.Request, s *session) {
	if v, ok := c.ownConnection(w, r, s); ok {
		c.render(w, r, s, http.StatusOK, "connection", page{Title: "Connection", Command: "drawbridge connections show " + string(v.Connection.ID)}, v)
	}
}

// connected is where a sign-in at a provider ends. It says what is true now, so it
// may be opened again at any time.
func (c *Console) connected(w http.ResponseWriter, r *http.Request, s *session) {
	v, ok := c.ownConnection(w, r, s)
	if !ok {
		return
	}
	if !v.Status.Usable() {
		c.connection(w, r, s)
		return
	}
	var missing []string // asked for and not granted
	for _, name := range v.RequestedScopes {
		if !slices.Contains(v.Connection.Scopes, name) {
			missing = append(missing, name)
		}
	}
	c.render(w, r, s, http.StatusOK, "connected", page{Title: "Connected", Command: "drawbridge connections show " + string(v.Connection.ID)},
		map[string]any{"View": v, "Missing": missing})
}

func (c *Console) disconnectPage(w http.ResponseWriter, r *http.Request, s *session) {
	v, ok := c.ownConnection(w, r, s)
	if !ok {
		return
	}
	if !live(v) {
		http.Redirect(w, r, "/connections/"+string(v.Connection.ID), http.StatusSeeOther)
		return
	}
	c.render(w, r, s, http.StatusOK, "disconnect", page{Title: "Disconnect?", Command: "drawbridge connections disconnect " + string(v.Connection.ID)}, v)
}

func (c *Console) disconnect(w http.ResponseWriter, r *http.Request, s *session) {
	v, ok := c.ownConnection(w, r, s)
	if !ok {
		return
	}
	if _, err := c.cfg.Credentials.Disconnect(r.Context(), s.caller, v.Connection.ID, "asked for on the pages"); err != nil {
		c.fail(w, r, s, err)
		return
	}
	c.log.InfoContext(r.Context(), "disconnected", "tenant", s.caller.Tenant, "connection", v.Connection.ID)
	http.Redirect(w, r, "/connections/"+string(v.Connection.ID), http.StatusSeeOther)
}
