package sandbox

import "time"

// Write is one change that really happened, in the order of commitment.
type Write struct {
	Seq            int64     `json:"seq"`
	At             time.Time `json:"at"`
	Kind           string    `json:"kind"` // "create", "update", "delete"
	Via            string    `json:"via"`  // "api" or "admin"
	TicketID       string    `json:"ticket_id"`
	Project        string    `json:"project"`
	Organisation   string    `json:"organisation"`
	Login          string    `json:"login,omitempty"`
	Client         string    `json:"client,omitempty"`
	Title          string    `json:"title"`
	IdempotencyKey string    `json:"idempotency_key,omitempty"`
	ExternalRef    string    `json:"external_ref,omitempty"`
	BodySHA256     string    `json:"body_sha256,omitempty"` // of the request bytes
	RequestID      string    `json:"request_id,omitempty"`
}

// record appends to the ledger. The caller holds mu.
func (w *world) record(kind, via string, t *stored, by Write) {
	by.Seq, by.At, by.Kind, by.Via = int64(len(w.ledger)+1), now(), kind, via
	by.TicketID, by.Project, by.Organisation = t.ID, t.Project.ID, projects[t.project].Organisation
	by.Title, by.ExternalRef = t.Title, t.ExternalRef
	w.ledger = append(w.ledger, by)
}

// Ledger returns every write since the start or the last Reset, seeded default
// data not included.
func (s *Server) Ledger() []Write {
	s.world.mu.RLock()
	defer s.world.mu.RUnlock()
	return append([]Write(nil), s.world.ledger...)
}
