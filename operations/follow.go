package operations

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// AuditEntry is one record with its place in its tenant's chain.
type AuditEntry struct {
	AuditHead                       // its number, and its hash over everything before
	ID        string                `json:"id"`
	Record    connector.AuditRecord `json:"-"`
}

// auditLine is an AuditEntry in an export. The texts are what the hash covers.
type auditLine struct {
	Seq           int64           `json:"seq"`
	Hash          string          `json:"hash"`
	ID            string          `json:"id"`
	AtMillis      int64           `json:"at_ms"` // since 1970, UTC
	Tenant        string          `json:"tenant"`
	Run           string          `json:"run"`
	Step          string          `json:"step"`
	CallID        string          `json:"call_id"`
	Principal     string          `json:"principal"`
	Connection    string          `json:"connection"`
	Tool          string          `json:"tool"`
	Connector     string          `json:"connector"`
	Version       string          `json:"version"`
	PolicyVersion string          `json:"policy_version"`
	Decision      string          `json:"decision"`
	ArgsDigest    string          `json:"arguments_digest"`
	Operation     string          `json:"operation"`
	Status        string          `json:"status"`
	Code          string          `json:"code"`
	RequestID     string          `json:"request_id"`
	Correlation   string          `json:"correlation"`
	Attempts      int64           `json:"attempts"`
	Stages        json.RawMessage `json:"stages"`
}

// texts are the line's columns between at and attempts, in their order.
func (l *auditLine) texts() []*string {
	return []*string{&l.Tenant, &l.Run, &l.Step, &l.CallID, &l.Principal, &l.Connection, &l.Tool, &l.Connector, &l.Version,
		&l.PolicyVersion, &l.Decision, &l.ArgsDigest, &l.Operation, &l.Status, &l.Code, &l.RequestID, &l.Correlation}
}

func (e *auditEntry) line() auditLine {
	l := auditLine{Seq: e.seq, Hash: hex.EncodeToString(e.hash), ID: e.id, AtMillis: e.values[0].(int64), Attempts: e.values[18].(int64),
		Stages: json.RawMessage(e.values[19].(string))}
	for i, text := range l.texts() {
		*text = e.values[i+1].(string)
	}
	return l
}

func (l auditLine) text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(l)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (l *auditLine) entry() (e auditEntry, err error) {
	e = auditEntry{id: l.ID, seq: l.Seq, values: []any{l.AtMillis}}
	for _, text := range l.texts() {
		e.values = append(e.values, *text)
	}
	e.values = append(e.values, l.Attempts, string(l.Stages))
	e.hash, err = hex.DecodeString(l.Hash)
	return e, err
}

const auditPage = 500

// After returns a tenant's records behind number seq, in the order of the
// chain, at most limit (zero or less: 500). Nothing is ever inserted before a
// record that was returned.
func (a *AuditLog) After(ctx context.Context, tenant connector.TenantID, seq int64, limit int) ([]AuditEntry, error) {
	page, err := a.after(ctx, tenant, seq, limit)
	if err != nil {
		return nil, edge(err)
	}
	var out []AuditEntry
	for i := range page {
		r, err := page[i].record()
		if err != nil {
			return nil, edge(err)
		}
		out = append(out, AuditEntry{chainHead{page[i].seq, page[i].hash}.public(), page[i].id, r})
	}
	return out, nil
}

func (a *AuditLog) after(ctx context.Context, tenant connector.TenantID, seq int64, limit int) ([]auditEntry, error) {
	if limit <= 0 {
		limit = auditPage
	}
	return a.entries(ctx, tenant, true, `SELECT id, `+auditColumns+`, seq, hash FROM audit WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?`, tenant, seq, limit)
}

// Tail hands a tenant's records behind number seq to fn, one by one in the
// order of the chain, and then each new one soon after it is on disk, whichever
// process wrote it. It returns fn's error, or the context's when that ends.
func (a *AuditLog) Tail(ctx context.Context, tenant connector.TenantID, seq int64, fn func(AuditEntry) error) error {
	const poll = 500 * time.Millisecond
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		page, err := a.After(ctx, tenant, seq, auditPage)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := fn(e); err != nil {
				return err
			}
			seq = e.Seq
		}
		if len(page) > 0 {
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Export writes a tenant's chain as JSON lines, oldest first, and returns its
// end. [VerifyAuditExport] needs nothing else. It does not check what it writes.
func (a *AuditLog) Export(ctx context.Context, tenant connector.TenantID, w io.Writer) (AuditHead, error) {
	out := bufio.NewWriter(w)
	head := genesis(string(tenant))
	for {
		page, err := a.after(ctx, tenant, head.seq, auditPage)
		if err != nil {
			return AuditHead{}, edge(err)
		}
		for i := range page {
			line, err := page[i].line().text()
			if err == nil {
				_, err = out.Write(append(line, '\n'))
			}
			if err != nil {
				return AuditHead{}, fmt.Errorf("operations: write the audit export: %w", err)
			}
			head = chainHead{page[i].seq, page[i].hash}
		}
		if len(page) == 0 {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return AuditHead{}, fmt.Errorf("operations: write the audit export: %w", err)
	}
	return head.public(), nil
}

// VerifyAuditExport recomputes the chain of an export and returns its end. That
// the end is the true one must be known from elsewhere: who can rewrite the
// whole export can make a chain of its own. Errors match ErrAuditChain, unless
// r could not be read.
func VerifyAuditExport(tenant connector.TenantID, r io.Reader) (AuditHead, error) {
	head := genesis(string(tenant))
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l auditLine
		err := json.Unmarshal(lines.Bytes(), &l)
		// A line must be as it was written: a key more, twice or in another case
		// could tell another reader another story.
		same, encodeErr := l.text()
		if err != nil || encodeErr != nil || !bytes.Equal(same, lines.Bytes()) || l.Tenant != string(tenant) {
			return AuditHead{}, fmt.Errorf("%w: line %d is no record of this tenant", ErrAuditChain, head.seq+1)
		}
		e, err := l.entry()
		if err != nil {
			return AuditHead{}, fmt.Errorf("%w: line %d has no hash", ErrAuditChain, head.seq+1)
		}
		if head, err = e.follows(head); err != nil {
			return AuditHead{}, err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return AuditHead{}, fmt.Errorf("%w: line %d is too long", ErrAuditChain, head.seq+1)
	} else if err != nil {
		return AuditHead{}, fmt.Errorf("operations: read the audit export: %w", err)
	}
	return head.public(), nil
}
