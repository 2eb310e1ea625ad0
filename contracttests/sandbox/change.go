package sandbox

import (
	"errors"
	"slices"
	"time"
)

// Seed is a ticket made or changed behind the API's back. Nil fields keep what
// is there, or a default for a new ticket.
type Seed struct {
	ID          *string    `json:"id"`
	Project     *string    `json:"project"`
	Type        *string    `json:"type"`
	Title       *string    `json:"title"`
	Body        *string    `json:"body"`
	State       *string    `json:"state"`
	Status      *string    `json:"status"`
	Severity    *string    `json:"severity"`
	Labels      []string   `json:"labels"`
	Archived    *bool      `json:"archived"`
	Evidence    []string   `json:"evidence"`
	ExternalRef *string    `json:"external_ref"`
	CreatedAt   *time.Time `json:"created_at"` // new tickets only
	Author      *string    `json:"author"`     // a login; new tickets only
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (in *Seed) apply(t *Ticket) {
	set(&t.Project.ID, in.Project)
	set(&t.Type, in.Type)
	set(&t.Title, in.Title)
	set(&t.Body, in.Body)
	set(&t.State, in.State)
	set(&t.Status, in.Status)
	set(&t.Severity, in.Severity)
	set(&t.Archived, in.Archived)
	set(&t.ExternalRef, in.ExternalRef)
	if in.Labels != nil {
		t.Labels = slices.Clone(in.Labels)
	}
	if in.Evidence != nil {
		t.Evidence = slices.Clone(in.Evidence)
	}
}

// AddTicket creates a ticket as another person of the organisation would, at
// once and with its event. Project is required; nothing else is checked, so
// that a test can plant what the API would refuse.
func (s *Server) AddTicket(in Seed) (Ticket, error) {
	t := Ticket{Type: "ticket", State: "open", Status: "triage", Severity: "medium", Title: "Planted by a test"}
	in.apply(&t)
	p := projectIndex(t.Project.ID)
	if p < 0 {
		return Ticket{}, errors.New("sandbox: unknown project")
	}
	author := "bob"
	if projects[p].Organisation == "globex" {
		author = "carol"
	}
	set(&author, in.Author)
	w := &s.world
	if w.user(author) == nil {
		return Ticket{}, errors.New("sandbox: unknown author")
	}
	if in.CreatedAt != nil {
		t.CreatedAt = *in.CreatedAt
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if set(&t.ID, in.ID); t.ID == "" {
		t.ID = w.newID()
	}
	if w.byID[t.ID] != nil {
		return Ticket{}, errors.New("sandbox: the id is taken")
	}
	w.complete(&t, author, now())
	st, err := w.put(t)
	if err != nil {
		return Ticket{}, err
	}
	w.record("create", "admin", st, Write{})
	s.hooks.ticket("ticket.created", st)
	return st.Ticket, nil
}

// ErrNoTicket is returned for an id that does not exist.
var ErrNoTicket = errors.New("sandbox: no such ticket")

// ChangeTicket updates a ticket, raises its version and sends its event.
func (s *Server) ChangeTicket(id string, in Seed) (Ticket, error) {
	w := &s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.byID[id]
	if old == nil {
		return Ticket{}, ErrNoTicket
	}
	t := old.Ticket
	in.apply(&t)
	t.Version++
	if t.UpdatedAt = now(); !t.UpdatedAt.After(old.UpdatedAt) {
		t.UpdatedAt = old.UpdatedAt // the clock may stand still; the version does not
	}
	st, err := w.put(t)
	if err != nil {
		return Ticket{}, err
	}
	w.record("update", "admin", st, Write{})
	s.hooks.ticket("ticket.updated", st)
	return st.Ticket, nil
}

// DeleteTicket removes a ticket and sends its event.
func (s *Server) DeleteTicket(id string) error {
	w := &s.world
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.byID[id]
	if t == nil {
		return ErrNoTicket
	}
	w.remove(t)
	w.record("delete", "admin", t, Write{})
	s.hooks.ticket("ticket.deleted", t)
	return nil
}

// SetAccess changes one entry of an access list, at once for every token, and
// sends project.access_changed. RoleNone takes the project away.
func (s *Server) SetAccess(login, project string, role Role) error {
	w := &s.world
	u, p := w.user(login), projectIndex(project)
	if u == nil || p < 0 || projects[p].Organisation != u.Organisation {
		return errors.New("sandbox: no such person and project in one organisation")
	}
	switch role {
	case RoleNone, RoleReader, RoleMember, RoleMaintainer:
	default:
		return errors.New("sandbox: unknown role")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.access[login][project] = role
	s.hooks.access(u, projects[p], role)
	return nil
}
