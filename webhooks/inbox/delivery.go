package inbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Delivery is what a verified sender posted, or what was read from the
// provider's own list of failed deliveries.
type Delivery struct {
	Tenant, Endpoint     string // required
	ID                   string // the sender's id; empty: the digest of the body
	IDSigned             bool   // false: whoever saw the delivery can repeat it under another id
	Provider, Connection string // required
	EventType            string
	Header               map[string]string // only what decoding needs
	Body                 []byte            // the document that was verified
	ReceivedAt           time.Time         // zero: now
	Secret               string            // the id of the secret that verified it
	Pull                 bool              // read by us; nobody signed it
}

// A Verdict says what became of a delivery.
type Verdict int

const (
	Stored    Verdict = iota + 1
	Duplicate         // this id with this body was stored before
	Conflict          // stored, and this id was stored before with another body
)

func (v Verdict) String() string {
	switch v {
	case Stored:
		return "stored"
	case Duplicate:
		return "duplicate"
	case Conflict:
		return "conflict"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

func (d Delivery) check() error {
	for _, s := range []string{d.Tenant, d.Endpoint, d.Provider, d.Connection} {
		if s == "" {
			return errors.New("inbox: delivery without tenant, endpoint, provider or connection")
		}
	}
	for _, s := range []string{d.Tenant, d.Endpoint, d.ID, d.Provider, d.Connection, d.EventType, d.Secret} {
		if !isText(s) {
			return errors.New("inbox: delivery with a field that is too long or no text")
		}
	}
	return nil
}

// digest is of the body alone: headers change between two tries of one sender.
func digest(body []byte) []byte {
	sum := sha256.Sum256(body)
	return sum[:]
}

// withID gives a delivery without an id that of its body.
func (d Delivery) withID() Delivery {
	if d.ID == "" {
		d.ID = "sha256:" + hex.EncodeToString(digest(d.Body))
	}
	return d
}

// Sealed together: the length of the headers in 4 bytes, the headers as JSON,
// the body. Headers are the sender's text as much as the body is.
func (b *Inbox) seal(d Delivery, row string) ([]byte, error) {
	header, err := json.Marshal(d.Header)
	if err != nil {
		return nil, fmt.Errorf("inbox: seal: %w", err)
	}
	plain := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(header)+len(d.Body)), uint32(len(header)))
	plain = append(append(plain, header...), d.Body...)
	sealed, err := b.sealer.Seal(plain, sealContext(d.Tenant, row))
	if err != nil {
		return nil, fmt.Errorf("inbox: seal: %w", err)
	}
	return sealed, nil
}

func (b *Inbox) unseal(sealed []byte, tenant, row string) (header map[string]string, body []byte, err error) {
	plain, err := b.sealer.Open(sealed, sealContext(tenant, row))
	if err != nil {
		return nil, nil, fmt.Errorf("inbox: open: %w", err)
	}
	if len(plain) < 4 {
		return nil, nil, errors.New("inbox: open: too short")
	}
	n := int(binary.BigEndian.Uint32(plain))
	if n > len(plain)-4 {
		return nil, nil, errors.New("inbox: open: too short")
	}
	if err := json.Unmarshal(plain[4:4+n], &header); err != nil {
		return nil, nil, errors.New("inbox: open: no headers")
	}
	return header, plain[4+n:], nil
}

func sealContext(tenant, row string) []byte {
	return []byte("webhook delivery " + digestID(tenant, row))
}
