package sandbox

import (
	"net/http"
	"slices"
	"strings"
)

// bearer lets a handler run only for a live token with the scope, inside the
// account's rate limit.
func (s *Server) bearer(scope string, h handler) handler {
	return func(x *exchange) answer {
		scheme, token, _ := strings.Cut(x.r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			out := fail(http.StatusUnauthorized, "unauthorized", "a bearer token is required")
			out.set("WWW-Authenticate", `Bearer realm="sandbox"`)
			return out
		}
		if x.who = s.auth.lookup(token); x.who == nil {
			out := fail(http.StatusUnauthorized, "invalid_token", "the token is unknown, expired or revoked")
			out.set("WWW-Authenticate", `Bearer realm="sandbox", error="invalid_token"`)
			return out
		}
		var quota answer
		if !s.limits.take(x.who.user.Login, &quota) {
			out := fail(http.StatusTooManyRequests, "rate_limited", "too many requests")
			out.header = quota.header
			return out
		}
		var out answer
		if slices.Contains(x.who.scopes, scope) {
			out = h(x)
		} else {
			out = jsonAnswer(http.StatusForbidden, map[string]string{"error": "insufficient_scope", "scope": scope})
			out.set("WWW-Authenticate", `Bearer realm="sandbox", error="insufficient_scope", scope="`+scope+`"`)
		}
		for k, v := range quota.header {
			if out.header == nil {
				out.header = quota.header
				break
			}
			out.header[k] = v
		}
		return out
	}
}

func (s *Server) me(x *exchange) answer {
	u := x.who.user
	return jsonAnswer(http.StatusOK, struct {
		Subject      string       `json:"subject"`
		Login        string       `json:"login"`
		Name         string       `json:"name"`
		Organisation Organisation `json:"organisation"`
		Scopes       []string     `json:"scopes"`
		Projects     []ProjectRef `json:"projects"`
	}{u.Subject, u.Login, u.Name, organisation(u.Organisation), x.who.scopes, s.visible(u.Login)})
}

// visible lists the projects on the account's access list.
func (s *Server) visible(login string) []ProjectRef {
	s.world.mu.RLock()
	defer s.world.mu.RUnlock()
	out := []ProjectRef{}
	for _, p := range projects {
		if s.world.role(login, p.ID) != RoleNone {
			out = append(out, ProjectRef{p.ID, p.Name})
		}
	}
	return out
}

func (s *Server) listProjects(x *exchange) answer {
	type item struct {
		ProjectRef
		Role Role `json:"role"`
	}
	login := x.who.user.Login
	items := []item{}
	s.world.mu.RLock()
	for _, p := range projects {
		if r := s.world.role(login, p.ID); r != RoleNone {
			items = append(items, item{ProjectRef{p.ID, p.Name}, r})
		}
	}
	s.world.mu.RUnlock()
	return jsonAnswer(http.StatusOK, map[string]any{"items": items})
}

// getTicket answers alike for a hidden and an absent ticket, If-None-Match or not.
func (s *Server) getTicket(x *exchange) answer {
	w := &s.world
	w.mu.RLock()
	t := w.byID[x.r.PathValue("id")]
	if t != nil && w.role(x.who.user.Login, t.Project.ID) == RoleNone {
		t = nil
	}
	w.mu.RUnlock()
	if t == nil {
		return notFound()
	}
	tag := t.etag()
	out := answer{status: http.StatusOK, body: t.json}
	for _, have := range strings.Split(x.r.Header.Get("If-None-Match"), ",") {
		if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == tag || have == "*" {
			out = answer{status: http.StatusNotModified}
		}
	}
	out.set("Etag", tag)
	out.set("Cache-Control", "private, no-cache")
	return out
}
