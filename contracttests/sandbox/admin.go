package sandbox

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// adminRoutes is the Go API over HTTP, for a sandbox in another process.
func (s *Server) adminRoutes(on func(string, handler)) {
	admin := func(pattern string, h handler) {
		on(pattern, func(x *exchange) answer {
			want := "Bearer " + s.adminToken
			if subtle.ConstantTimeCompare([]byte(x.r.Header.Get("Authorization")), []byte(want)) != 1 {
				return fail(http.StatusUnauthorized, "unauthorized", "the admin token is required")
			}
			return h(x)
		})
	}
	read := func(get func() any) handler {
		return func(*exchange) answer { return jsonAnswer(http.StatusOK, get()) }
	}
	admin("GET /admin/ledger", read(func() any { return map[string]any{"writes": nonNil(s.Ledger())} }))
	admin("GET /admin/requests", read(func() any { return map[string]any{"requests": nonNil(s.Requests())} }))
	admin("GET /admin/canaries", read(func() any { return map[string]any{"canaries": s.Canaries()} }))
	admin("GET /admin/tickets", read(func() any { return map[string]any{"tickets": nonNil(s.Tickets())} }))
	admin("GET /admin/webhooks/deliveries", read(func() any { return map[string]any{"deliveries": nonNil(s.Deliveries())} }))
	admin("GET /admin/stats", read(func() any {
		return map[string]any{"tickets": s.Total(), "writes": len(s.Ledger()), "routes": s.RouteHits(), "oauth": s.OAuthStats(), "rules_fired": nonNil(s.Fired())}
	}))
	admin("GET /admin/behaviour", read(func() any { return s.Behaviour() }))
	admin("PUT /admin/behaviour", s.adminBehaviour)
	admin("DELETE /admin/behaviour", func(*exchange) answer { return done(s.SetBehaviour(Behaviour{})) })
	admin("POST /admin/tickets", s.adminAdd)
	admin("PATCH /admin/tickets/{id}", func(x *exchange) answer {
		var in Seed
		if err := strict(x.body, &in); err != nil {
			return done(err)
		}
		t, err := s.ChangeTicket(x.r.PathValue("id"), in)
		if err != nil {
			return done(err)
		}
		return jsonAnswer(http.StatusOK, t)
	})
	admin("DELETE /admin/tickets/{id}", func(x *exchange) answer { return done(s.DeleteTicket(x.r.PathValue("id"))) })
	admin("POST /admin/access", func(x *exchange) answer {
		var in struct {
			Login   string `json:"login"`
			Project string `json:"project"`
			Role    Role   `json:"role"`
		}
		if err := strict(x.body, &in); err != nil {
			return done(err)
		}
		return done(s.SetAccess(in.Login, in.Project, in.Role))
	})
	admin("POST /admin/clients", func(x *exchange) answer {
		var c Client
		if err := strict(x.body, &c); err != nil {
			return done(err)
		}
		return done(s.RegisterClient(c))
	})
	admin("POST /admin/tokens/expire", func(*exchange) answer {
		s.ExpireAccessTokens()
		return done(nil)
	})
	admin("POST /admin/tokens/revoke", func(x *exchange) answer {
		var in struct {
			Login string `json:"login"`
		}
		if err := strict(x.body, &in); err != nil {
			return done(err)
		}
		return jsonAnswer(http.StatusOK, map[string]int{"families": s.RevokeUser(in.Login)})
	})
	admin("POST /admin/webhooks/redeliver", func(x *exchange) answer {
		var in struct {
			ID string `json:"id"`
		}
		if len(x.body) > 0 {
			if err := strict(x.body, &in); err != nil {
				return done(err)
			}
		}
		return jsonAnswer(http.StatusOK, map[string]int{"queued": s.Redeliver(in.ID)})
	})
	admin("POST /admin/webhooks/age", func(x *exchange) answer {
		var in struct {
			Seconds int `json:"seconds"`
		}
		if err := strict(x.body, &in); err != nil {
			return done(err)
		}
		s.AgeWebhooks(time.Duration(in.Seconds) * time.Second)
		return done(nil)
	})
	admin("POST /admin/reset", func(*exchange) answer {
		s.Reset()
		return done(nil)
	})
}

func (s *Server) adminBehaviour(x *exchange) answer {
	var b Behaviour
	if err := strict(x.body, &b); err != nil {
		return done(err)
	}
	return done(s.SetBehaviour(b))
}

// adminAdd takes one ticket or a list of them.
func (s *Server) adminAdd(x *exchange) answer {
	var list []Seed
	if bytes.HasPrefix(bytes.TrimSpace(x.body), []byte("[")) {
		if err := strict(x.body, &list); err != nil {
			return done(err)
		}
	} else {
		var one Seed
		if err := strict(x.body, &one); err != nil {
			return done(err)
		}
		list = []Seed{one}
	}
	added := []Ticket{}
	for _, in := range list {
		t, err := s.AddTicket(in)
		if err != nil {
			return done(err)
		}
		added = append(added, t)
	}
	return jsonAnswer(http.StatusCreated, map[string]any{"tickets": added})
}

// strict refuses unknown keys: a misspelt switch must not be a silent no-op.
func strict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func done(err error) answer {
	switch {
	case err == nil:
		return answer{status: http.StatusNoContent}
	case errors.Is(err, ErrNoTicket):
		return notFound()
	}
	return fail(http.StatusBadRequest, "invalid", err.Error())
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
