package operations

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations are the tables of the ledger and of the audit log.
func Migrations() store.Migrations {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return store.Migrations{Service: "operations", FS: files}
}

// Config is what a Ledger is made of. Zero durations mean the defaults.
type Config struct {
	DB   *store.DB  // required; opened with Migrations
	Keys *keys.Ring // required

	// Signer signs exported receipts. Nil: ExportReceipt is UNAVAILABLE.
	Signer *keys.Signer

	// Audit writes the audit records that come with proposals and outcomes in
	// the transactions of these. It is for a Runtime whose Auditor is an
	// AuditLog on the same database; false leaves them to the Auditor.
	Audit bool

	// ApprovalTTL is how long an approval can be given and used, counted from
	// the proposal. Zero means 30 minutes.
	ApprovalTTL time.Duration

	// Lease is how long a dispatch or a look-up may take before others believe
	// that its process died. It must be longer than the longest dispatch: a
	// look-up beside a request that is still on its way may find nothing and
	// be believed. Zero means one minute.
	Lease time.Duration

	// GiveUp is how long after dispatch an unknown operation is looked up
	// before it waits for a person instead. Zero means 24 hours.
	GiveUp time.Duration
}

// Ledger implements connector.Operations, and what people do with approvals
// and operations. It keeps nothing in memory and is safe for concurrent use, by
// any number of processes on one database.
type Ledger struct {
	db     *store.DB
	seal   sealer
	signer *keys.Signer
	audit  bool
	ttl    time.Duration
	lease  time.Duration
	giveUp time.Duration
}

var _ connector.Operations = (*Ledger)(nil)

// New checks the configuration. It doesn't touch the database.
func New(c Config) (*Ledger, error) {
	switch {
	case c.DB == nil:
		return nil, errors.New("operations: no database")
	case c.Keys == nil:
		return nil, errors.New("operations: no keys")
	case c.ApprovalTTL < 0 || c.Lease < 0 || c.GiveUp < 0:
		return nil, errors.New("operations: negative duration")
	}
	or := func(d, fallback time.Duration) time.Duration {
		if d == 0 {
			return fallback
		}
		return d
	}
	return &Ledger{
		db: c.DB, seal: sealer{c.Keys}, signer: c.Signer, audit: c.Audit,
		ttl:    or(c.ApprovalTTL, 30*time.Minute),
		lease:  or(c.Lease, time.Minute),
		giveUp: or(c.GiveUp, 24*time.Hour),
	}, nil
}

// Find returns the live operation of an identity: any but one that ended
// without effect.
func (l *Ledger) Find(ctx context.Context, w connector.WriteIdentity) (connector.OperationRecord, bool, error) {
	r, found, err := l.read(ctx, func() (row, bool, error) { return findLive(ctx, scoped{l.db, scope(w.Tenant)}, w) })
	if err != nil || !found || !r.live() {
		return connector.OperationRecord{}, false, edge(err)
	}
	rec, err := l.seal.record(&r)
	return rec, err == nil, edge(err)
}

// Get returns one operation of a tenant. An operation of another tenant and
// one that doesn't exist are both NOT_FOUND.
func (l *Ledger) Get(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (connector.OperationRecord, error) {
	r, found, err := l.read(ctx, func() (row, bool, error) { return l.findID(ctx, tenant, id) })
	if err == nil && !found {
		err = notFound("operation")
	}
	if err != nil {
		return connector.OperationRecord{}, edge(err)
	}
	rec, err := l.seal.record(&r)
	return rec, edge(err)
}

// read finds a row and writes only if time has decided something about it.
func (l *Ledger) read(ctx context.Context, find func() (row, bool, error)) (row, bool, error) {
	r, found, err := find()
	if err != nil || !found {
		return r, false, err
	}
	now, err := l.db.Now(ctx)
	if err == nil && l.overdue(&r, now) {
		r, err = l.touch(ctx, r.tenant, r.id)
	}
	return r, err == nil, err
}

// touch writes what time has decided about one operation.
func (l *Ledger) touch(ctx context.Context, tenant connector.TenantID, id connector.OperationID) (row, error) {
	return l.change(ctx, tenant, id, func(*store.Tx, *row, time.Time) error { return nil })
}

// change locks one operation, writes what time has decided about it, and lets
// fn go on from there. What fn or time have moved is committed even when fn
// refuses with an *Error; any other error undoes everything.
func (l *Ledger) change(ctx context.Context, tenant connector.TenantID, id connector.OperationID, fn func(*store.Tx, *row, time.Time) error) (row, error) {
	var r row
	var refusal error
	err := l.db.UpdateFor(ctx, scope(tenant), func(tx *store.Tx) (err error) {
		refusal = nil
		if r, err = lock(ctx, tx, tenant, id); err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if err := l.lapse(ctx, tx, &r, now); err != nil {
			return err
		}
		err = fn(tx, &r, now)
		var e *connector.Error
		if errors.As(err, &e) && r.moved {
			refusal = e
			return nil
		}
		return err
	})
	if err == nil {
		err = refusal
	}
	return r, err
}

// scope is the second wall, behind the tenant that every statement names.
func scope(tenant connector.TenantID) store.Scope { return store.Tenant(string(tenant)) }

// edge is the one place where other packages' errors become ours.
func edge(err error) error {
	var e *connector.Error
	switch {
	case err == nil, errors.As(err, &e), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrUnavailable), errors.Is(err, keys.ErrKeyUnavailable):
		return &connector.Error{Code: connector.CodeUnavailable, Message: "the ledger could not be used", Err: err}
	}
	return &connector.Error{Code: connector.CodeInternal, Message: "the ledger failed", Err: err}
}

func notFound(what string) error {
	return connector.Fail(connector.CodeNotFound, "no such %s", what)
}
