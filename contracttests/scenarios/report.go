package scenarios

// Report is what happened, for programs. Field names are stable.
type Report struct {
	Scenarios []Outcome `json:"scenarios"`
	Passed    bool      `json:"passed"`
}

// Outcome is one scenario.
type Outcome struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Steps  []Step `json:"steps"`
	// TicketsAtProvider counts the tickets that this scenario made, and
	// ProviderWrites all writes while it ran; both from the provider's ledger.
	TicketsAtProvider int      `json:"tickets_at_provider"`
	ProviderWrites    int      `json:"provider_writes"`
	Failures          []string `json:"failures,omitempty"`
}

// Step is one call as the caller saw it.
type Step struct {
	Tool   string `json:"tool"`
	Status string `json:"status"`
	Code   string `json:"code"` // empty: no error
	Effect string `json:"effect"`
}
