package sandbox

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Ticket is a ticket as the API shows it, private fields included: dropping
// them is the connector's work.
type Ticket struct {
	ID             string     `json:"id"` // opaque; may look like a number and be larger than 2^53
	Project        ProjectRef `json:"project"`
	Type           string     `json:"type"` // "ticket", or "change_request", which is none
	Title          string     `json:"title"`
	Body           string     `json:"body"`
	State          string     `json:"state"`  // "open" or "closed"
	Status         string     `json:"status"` // the organisation's own word
	Severity       string     `json:"severity"`
	Labels         []string   `json:"labels"`
	Archived       bool       `json:"archived"`
	Evidence       []string   `json:"evidence"`
	Author         Person     `json:"author"`
	ExternalRef    string     `json:"external_ref"`
	CreatedAt      time.Time  `json:"created_at"` // UTC, milliseconds
	UpdatedAt      time.Time  `json:"updated_at"`
	Version        int64      `json:"version"`
	URL            string     `json:"url"`
	RequesterEmail string     `json:"requester_email"`
	RequesterPhone string     `json:"requester_phone"`
	PrivateNotes   string     `json:"private_notes"`

	// IdempotencyKey is the key of the request that created it. Not on the wire.
	IdempotencyKey string `json:"-"`
}

// ProjectRef names a project inside a ticket.
type ProjectRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Person names an account inside a ticket.
type Person struct {
	ID    string `json:"id"`
	Login string `json:"login"`
	Name  string `json:"name"`
}

// stored is immutable once it is in the world: a change replaces it. Its wire
// form and search text are made at the write, so that a page is only copying.
type stored struct {
	Ticket
	project int // index in projects
	seen    time.Time
	json    []byte
	search  string
}

// world is what a person would call the organisation's data.
type world struct {
	s     *Server
	users []User

	mu     sync.RWMutex
	access map[string]map[string]Role // login, project
	labels map[string]map[string]bool // project, label
	byID   map[string]*stored
	order  []*stored // ascending by (created, id); the key never changes
	keys   map[string]*operation
	ledger []Write
	nextID int64
	rand   *seeded
}

func (w *world) init(s *Server) {
	w.s = s
	w.users = defaultUsers(s.cfg.Seed)
	for _, u := range w.users {
		s.secrets.add(u.Password, u.Email, u.Phone)
	}
	w.reset()
}

func (w *world) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.access = make(map[string]map[string]Role)
	for login, roles := range defaultAccess {
		w.access[login] = make(map[string]Role)
		for p, r := range roles {
			w.access[login][p] = r
		}
	}
	w.labels = make(map[string]map[string]bool)
	for _, p := range projects {
		w.labels[p.ID] = map[string]bool{"bug": true, "p1": true, "regression": true, "customer": true}
	}
	w.byID = make(map[string]*stored)
	w.order = nil
	w.keys = make(map[string]*operation)
	w.ledger = nil
	// Larger than 2^53, so that an id read as a number comes back as another one.
	w.nextID = 9007199254741993
	w.rand = newSeeded(w.s.cfg.Seed)
	w.seed(w.s.cfg.Tickets)
}

func compareKey(aTime time.Time, aID string, bTime time.Time, bID string) int {
	if c := aTime.Compare(bTime); c != 0 {
		return c
	}
	return strings.Compare(aID, bID)
}

// put inserts or replaces. The caller holds mu.
func (w *world) put(t Ticket) (*stored, error) {
	p := projectIndex(t.Project.ID)
	if p < 0 {
		return nil, errors.New("unknown project")
	}
	t.Project.Name = projects[p].Name
	if t.Labels == nil {
		t.Labels = []string{}
	}
	if t.Evidence == nil {
		t.Evidence = []string{}
	}
	t.URL = w.s.base + "/tickets/" + t.ID
	st := &stored{Ticket: t, project: p, seen: time.Now(), search: strings.ToLower(t.Title + "\n" + t.Body)}
	var err error
	if st.json, err = json.Marshal(&st.Ticket); err != nil {
		return nil, err
	}
	at, found := slices.BinarySearchFunc(w.order, st, func(a, b *stored) int {
		return compareKey(a.CreatedAt, a.ID, b.CreatedAt, b.ID)
	})
	if found {
		st.seen = w.order[at].seen
		w.order[at] = st
	} else {
		w.order = slices.Insert(w.order, at, st)
	}
	w.byID[t.ID] = st
	w.s.secrets.add(t.RequesterEmail, t.RequesterPhone, t.PrivateNotes)
	return st, nil
}

// remove takes a ticket out. The caller holds mu.
func (w *world) remove(t *stored) {
	delete(w.byID, t.ID)
	w.order = slices.DeleteFunc(w.order, func(o *stored) bool { return o.ID == t.ID })
}

// newID never repeats within a run. The caller holds mu.
func (w *world) newID() string {
	for {
		w.nextID++
		if id := strconv.FormatInt(w.nextID, 10); w.byID[id] == nil {
			return id
		}
	}
}

// role of a login in a project; service accounts are logins too. The caller holds mu.
func (w *world) role(login, project string) Role {
	if r := w.access[login][project]; r != "" {
		return r
	}
	return RoleNone
}

// now is the organisation's clock: UTC milliseconds.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Tickets returns a copy of every ticket, oldest first, whoever may see it.
func (s *Server) Tickets() []Ticket {
	s.world.mu.RLock()
	defer s.world.mu.RUnlock()
	out := make([]Ticket, len(s.world.order))
	for i, t := range s.world.order {
		out[i] = t.Ticket
		out[i].Labels = slices.Clone(t.Labels)
		out[i].Evidence = slices.Clone(t.Evidence)
	}
	return out
}

func (s *Server) count(match func(*stored) bool) int {
	s.world.mu.RLock()
	defer s.world.mu.RUnlock()
	n := 0
	for _, t := range s.world.order {
		if match(t) {
			n++
		}
	}
	return n
}

// Total is the number of tickets of all organisations.
func (s *Server) Total() int { return s.count(func(*stored) bool { return true }) }

// Count is the number of tickets with exactly this title.
func (s *Server) Count(title string) int {
	return s.count(func(t *stored) bool { return t.Title == title })
}

// CountKey is the number of tickets created by requests with this idempotency
// key, replays not counted. More than one is a duplicate.
func (s *Server) CountKey(key string) int {
	return s.count(func(t *stored) bool { return t.IdempotencyKey == key })
}

// CountRef is the number of tickets with this external reference.
func (s *Server) CountRef(ref string) int {
	return s.count(func(t *stored) bool { return t.ExternalRef == ref })
}
