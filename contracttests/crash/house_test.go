package crash

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/host"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/operations"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/tickets"
	"github.com/drawbridge-dev/drawbridge/tickets/sandboxorg"
)

// place is where a process finds its database, its keys and its provider. It
// travels to children as JSON.
type place struct {
	Data     string        `json:"data"`
	Database string        `json:"database"`
	Provider string        `json:"provider"` // base URL
	Lease    time.Duration `json:"lease"`
	GiveUp   time.Duration `json:"give_up"`
}

// house is what package host puts together, in the same order, with the
// interfaces that a Runtime is given within reach: at is called before and
// after each step of a write and may never return.
type house struct {
	db          *store.DB
	credentials *credentials.Service
	ledger      *operations.Ledger
	audit       *operations.AuditLog
	transport   *transport.Transport
	runtime     *connector.Runtime
}

type lateExchanger struct{ *transport.Transport }

func open(ctx context.Context, p place, at func(point string)) (h *house, err error) {
	h = &house{}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	h.db, err = store.Open(ctx, store.Config{URL: p.Database, Migrations: []store.Migrations{credentials.Migrations(), operations.Migrations()}})
	if err != nil {
		return nil, err
	}
	ring, err := keys.OpenFile(filepath.Join(p.Data, "keys.json"))
	if err != nil {
		return nil, err
	}
	h.ledger, err = operations.New(operations.Config{DB: h.db, Keys: ring, Lease: p.Lease, GiveUp: p.GiveUp})
	if err != nil {
		return nil, err
	}
	if h.audit, err = operations.NewAuditLog(operations.AuditConfig{DB: h.db}); err != nil {
		return nil, err
	}
	codec, err := cursors.New(cursors.Config{Keys: ring})
	if err != nil {
		return nil, err
	}
	con := tickets.New(sandboxorg.Driver{})
	con.Provider = "sandbox"
	// What package host reads of a loopback address, as an exception for it.
	private, err := loopback(p.Provider)
	if err != nil {
		return nil, err
	}
	exchange := &lateExchanger{}
	h.credentials, err = credentials.New(credentials.Config{DB: h.db, Keys: ring, Exchanger: exchange,
		Providers: []credentials.Provider{{ID: "sandbox", Profile: "sandbox", Issuer: p.Provider,
			AuthorizationURL: p.Provider + "/oauth/authorize", TokenURL: p.Provider + "/oauth/token",
			RevocationURL: p.Provider + "/oauth/revoke", IssAdvertised: true, ClientID: "drawbridge-cli",
			Method: credentials.AuthNone, Scopes: con.Auth.Scopes}},
		OnChange: func(ctx context.Context, tx *store.Tx, tenant connector.TenantID, id connector.ConnectionID) error {
			_, err := h.ledger.KillConnection(ctx, tx, tenant, id, "the connection changed")
			return err
		}})
	if err != nil {
		return nil, err
	}
	h.transport, err = transport.New(transport.Config{Credentials: h.credentials, Profiles: transport.Static{"sandbox": {
		Name: "sandbox", BaseURL: p.Provider, Private: private,
		Limits: transport.Limits{Rate: 1e6, Burst: 1e6, Concurrency: 64, Queue: 4096}}}})
	if err != nil {
		return nil, err
	}
	exchange.Transport = h.transport
	watched := watch{at: at}
	h.runtime, err = connector.New(connector.Config{
		Connectors: []connector.Connector{con}, Policy: host.Local{}, Consent: host.Local{}, Connections: h.credentials,
		Transport: &watchedTransport{h.transport, &watched}, Cursors: codec,
		Operations: &watchedLedger{h.ledger, &watched}, Auditor: h.audit,
	})
	return h, err
}

func (h *house) close() {
	if h.runtime != nil {
		h.runtime.Close()
	}
	if h.credentials != nil {
		h.credentials.Close()
	}
	if h.transport != nil {
		h.transport.Close()
	}
	if h.audit != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		h.audit.Close(ctx)
	}
	if h.db != nil {
		h.db.Close()
	}
}

// tick is the periodic work of a host, as [host.Host.Tick] does it. It reports
// how many operations it looked up.
func (h *house) tick(ctx context.Context) (int, error) {
	_, err := h.ledger.Sweep(ctx)
	if err != nil {
		return 0, err
	}
	due, err := h.ledger.Due(ctx, 0)
	for _, ref := range due {
		_, settleErr := h.runtime.Settle(ctx, ref.Tenant, ref.ID)
		switch connector.CodeOf(settleErr) {
		case 0, connector.CodeConflict, connector.CodeOutcomeUnknown: // over, or another process has it
		default:
			err = errors.Join(err, settleErr)
		}
	}
	return len(due), err
}

var caller = connector.Caller{Tenant: "acme", Principal: "bob", Run: "run_crash"}

// connect walks the provider's sign-in pages as bob.
func (h *house) connect(ctx context.Context, org *sandbox.Server) error {
	const browser = "the browser of the crash tests"
	begun, err := h.credentials.Begin(ctx, caller, credentials.BeginRequest{Provider: "sandbox",
		RedirectURI: "http://127.0.0.1:1/callback", BrowserKey: browser})
	if err != nil {
		return err
	}
	for _, u := range org.Users() {
		if u.Login != "bob" {
			continue
		}
		back, err := sandbox.Login(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, begun.URL, "bob", u.Password, true)
		if err != nil {
			return err
		}
		_, err = h.credentials.Finish(ctx, caller, browser, back.Query(), h.runtime.Identify)
		return err
	}
	return errors.New("the sandbox knows no bob")
}

func draft(title string) json.RawMessage {
	raw, err := json.Marshal(tickets.Draft{Project: "orders", Title: title, Body: "Seen twice.", Severity: "low"})
	if err != nil {
		panic(err) // a literal of this package
	}
	return raw
}

func (h *house) create(ctx context.Context, title string) connector.Result {
	return h.runtime.Execute(ctx, caller, connector.Call{Tool: "tickets.create", Arguments: draft(title)})
}

func (h *house) approve(ctx context.Context, id connector.ApprovalID) error {
	_, err := h.ledger.Approve(ctx, caller.Tenant, string(id), "maria")
	return err
}
