package operations

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/store"
)

// AuditConfig is what an AuditLog is made of. Zero numbers mean the defaults.
type AuditConfig struct {
	DB     *store.DB    // required; opened with Migrations
	Logger *slog.Logger // nil: failures are not logged, only returned and retried

	// Buffer is how many records of reads may wait to be written. When it is
	// full, calls wait. Zero means 1024.
	Buffer int

	// Patience is how long a call waits, for room in the buffer or for its
	// write to be on disk, before Record fails. Zero means 10 seconds.
	Patience time.Duration
}

// AuditLog implements connector.Auditor. One goroutine writes; what has piled
// up meanwhile goes in one transaction. A record of a write (one with an
// operation) is on disk when Record returns nil. A record of a read is in the
// buffer then: it can be lost when the process is killed, and not otherwise.
//
// A tenant's records form a chain in the order in which they were written,
// whichever process wrote them: see [AuditLog.Verify]. Records that an earlier
// version of this program wrote without one are chained at the start.
type AuditLog struct {
	db       *store.DB
	logger   *slog.Logger
	patience time.Duration

	queue chan auditEntry
	done  chan struct{}
	stop  context.Context // ends the retries of a Close that runs out of time
	abort context.CancelFunc

	mu     sync.RWMutex // held for reading while sending into queue
	closed bool

	// Owned by the writer until done is closed.
	lost  int
	heads map[string]chainHead // where it last saw each tenant's chain end
}

type auditEntry struct {
	id      string
	values  []any         // of auditColumns, as they are stored
	written chan struct{} // nil: nobody waits

	seq  int64 // of a record that was read
	hash []byte
}

var _ connector.Auditor = (*AuditLog)(nil)

const (
	auditBatch     = 256
	auditMaxField  = 512
	auditMaxStages = 16 << 10
)

// NewAuditLog starts the writer. Close ends it.
func NewAuditLog(c AuditConfig) (*AuditLog, error) {
	if c.DB == nil {
		return nil, errors.New("operations: no database")
	}
	if c.Buffer < 0 || c.Patience < 0 {
		return nil, errors.New("operations: negative audit buffer or patience")
	}
	if c.Buffer == 0 {
		c.Buffer = 1024
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &AuditLog{db: c.DB, logger: c.Logger, patience: c.Patience, queue: make(chan auditEntry, c.Buffer), done: make(chan struct{}),
		heads: map[string]chainHead{}}
	a.stop, a.abort = context.WithCancel(context.Background())
	go a.write()
	return a, nil
}

// Record keeps one record. The caller's cancellation doesn't stop it. It fails
// with OVERLOADED when the log could not take the record within the patience
// (a record of a write may still be written later), and with UNAVAILABLE after
// Close.
func (a *AuditLog) Record(_ context.Context, r connector.AuditRecord) error {
	e := newAuditEntry(r)
	if r.Operation != "" {
		e.written = make(chan struct{})
	}
	timer := time.NewTimer(a.patience)
	defer timer.Stop()
	if err := a.enqueue(e, timer.C); err != nil || e.written == nil {
		return err
	}
	select {
	case <-e.written:
		return nil
	case <-a.done:
	case <-timer.C:
	}
	select {
	case <-e.written:
		return nil
	default:
		return connector.Fail(connector.CodeOverloaded, "the audit record is not on disk yet")
	}
}

func newAuditEntry(r connector.AuditRecord) auditEntry {
	return auditEntry{id: fmt.Sprintf("aud_%012x%s", max(r.At.UnixMilli(), 0), strings.ToLower(rand.Text()[:12])), values: auditValues(r)}
}

// account writes an audit record in the transaction of what it is about. The
// order of locks is the operation first and the chain's end last, and whoever
// only writes audit records takes no other lock.
func (l *Ledger) account(ctx context.Context, tx *store.Tx, r *connector.AuditRecord) (bool, error) {
	if !l.audit || r == nil {
		return false, nil
	}
	e := newAuditEntry(*r)
	tenant := string(r.Tenant)
	head, err := lockHead(ctx, tx, tenant)
	if err != nil {
		return false, err
	}
	end, err := insertAudit(ctx, tx, head, []*auditEntry{&e})
	if err != nil {
		return false, err
	}
	return true, setHead(ctx, tx, tenant, head, end)
}

func (a *AuditLog) enqueue(e auditEntry, timeout <-chan time.Time) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return connector.Fail(connector.CodeUnavailable, "the audit log is closed")
	}
	select {
	case a.queue <- e:
		return nil
	case <-timeout:
		return connector.Fail(connector.CodeOverloaded, "the audit log is full")
	}
}

// Close writes everything that was accepted and stops. When ctx ends first it
// gives up and says how many records are lost. Later calls return nil at once
// or wait for the first.
func (a *AuditLog) Close(ctx context.Context) error {
	a.mu.Lock()
	first := !a.closed
	if first {
		a.closed = true
		close(a.queue)
	}
	a.mu.Unlock()
	stop := context.AfterFunc(ctx, a.abort)
	defer stop()
	<-a.done
	a.abort()
	if first && a.lost > 0 {
		return fmt.Errorf("operations: %d audit records could not be written: %w", a.lost, context.Cause(ctx))
	}
	return nil
}

func (a *AuditLog) write() {
	defer close(a.done)
	a.retry("old audit records not chained, trying again", func() error { return a.adopt(a.stop) })
	batch := make([]auditEntry, 0, auditBatch)
	for e := range a.queue {
		batch = append(batch[:0], e)
	more:
		for len(batch) < auditBatch {
			select {
			case e, ok := <-a.queue:
				if !ok {
					break more
				}
				batch = append(batch, e)
			default:
				break more
			}
		}
		if a.flush(batch) {
			for _, e := range batch {
				if e.written != nil {
					close(e.written)
				}
			}
		} else {
			a.lost += len(batch)
		}
	}
}

// flush tries until the batch is on disk. Records have their ids from the
// start, so a batch of which the commit's outcome is unknown can be repeated.
func (a *AuditLog) flush(batch []auditEntry) bool {
	var tenants []string
	entries := map[string][]*auditEntry{}
	for i := range batch {
		tenant := batch[i].values[1].(string)
		if entries[tenant] == nil {
			tenants = append(tenants, tenant)
		}
		entries[tenant] = append(entries[tenant], &batch[i])
	}
	slices.Sort(tenants) // every process locks in the same order
	return a.retry("audit records not written, trying again", func() error {
		ends := map[string]chainHead{}
		err := a.db.UpdateFor(a.stop, store.AllTenants(), func(tx *store.Tx) (err error) {
			for _, tenant := range tenants {
				if ends[tenant], err = appendAudit(a.stop, tx, tenant, a.heads[tenant], entries[tenant]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(a.heads) > 4096 {
			clear(a.heads) // only a hint
		}
		maps.Copy(a.heads, ends)
		return nil
	})
}

// retry repeats what the database refused until it works or the log is closed
// with its patience at an end.
func (a *AuditLog) retry(complaint string, do func() error) bool {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := do()
		if err == nil {
			return true
		}
		a.logger.Error(complaint, slog.Any("err", err))
		select {
		case <-time.After(pause):
		case <-a.stop.Done():
			return false
		}
	}
}
