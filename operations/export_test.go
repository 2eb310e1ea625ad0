package operations

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func (b *bench) signing() (*Ledger, *keys.Signer) {
	b.t.Helper()
	s, err := keys.NewSigner()
	if err != nil {
		b.t.Fatal(err)
	}
	l, err := New(Config{DB: b.db, Keys: b.ring, Signer: s})
	if err != nil {
		b.t.Fatal(err)
	}
	return l, s
}

// proven is an applied operation with a receipt as package connector writes it.
func (b *bench) proven(intent string) connector.Claim {
	b.t.Helper()
	c := b.dispatched(intent)
	b.finish(c, connector.Outcome{State: connector.StateApplied, Output: []byte(`{}`), Receipt: b.receiptOf(c.OperationRecord)})
	return c
}

func (b *bench) receiptOf(rec connector.OperationRecord) []byte {
	b.t.Helper()
	raw, err := json.Marshal(map[string]any{"operation_id": rec.ID, "tool": rec.Tool, "version": rec.Version, "proof": "verified",
		"how": "answer", "external_id": "T-77", "arguments_digest": rec.ArgsDigest, "payload_digest": rec.Digest,
		"occurred_at": time.Unix(1_700_000_000, 5e6).UTC(), "differences": []connector.Change{{Pointer: "/title", Sent: "<é\u2028\t\x00>", Stored: ""}}})
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// Guarantee: TIX6
func TestExportedReceiptVerifiesWithoutTheDatabase(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		l, signer := b.signing()
		c := b.proven("step-1")
		signed, err := l.ExportReceipt(t.Context(), acme, string(c.ID))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.MarshalIndent(signed, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got, err := VerifyReceipt(raw, signer.Public())
		if err != nil {
			t.Fatal(err)
		}
		rec := b.get(c.OperationRecord)
		want := Statement{Kind: ReceiptPurpose, Tenant: acme, Principal: "alice", Connection: "con_1", Provider: "sandbox",
			Issuer: "https://id.example", AccountID: "4711", Account: "alice@acme", Organisation: "Acme", Connector: "tickets", Version: "1.2.3",
			Tool: "tickets.create", Operation: rec.ID, ExternalID: "T-77", Proof: connector.ProofVerified, How: "answer",
			OccurredAt: "2023-11-14T22:13:20.005Z", Differences: []connector.Change{{Pointer: "/title", Sent: "<é\u2028\t\x00>", Stored: ""}},
			ArgsDigest: rec.ArgsDigest, Digest: rec.Digest, Approval: rec.Approval, ApprovedBy: "bob", ApprovedAt: got.ApprovedAt,
			ProposedAt: stamp(rec.CreatedAt), DispatchedAt: stamp(rec.DispatchedAt)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("statement (-want +got):\n%s", diff)
		}
		if got.ApprovedAt == "" {
			t.Error("the statement does not say when it was approved")
		}
		again, err := l.ExportReceipt(t.Context(), acme, string(c.ID)[:13])
		if diff := cmp.Diff(signed, again); err != nil || diff != "" {
			t.Errorf("the second export (%v):\n%s", err, diff)
		}
		_, err = l.ExportReceipt(t.Context(), other, string(c.ID))
		fails(t, err, connector.CodeNotFound)
	})
}

// Guarantee: TIX6
func TestNoReceiptIsExportedForWhatWasNotProven(t *testing.T) {
	b := newBench(t, storetest.SQLite(t))
	ctx := t.Context()
	l, _ := b.signing()
	export := func(rec connector.OperationRecord) error {
		_, err := l.ExportReceipt(ctx, acme, string(rec.ID))
		return err
	}
	waiting := b.propose(proposal(acme, "waiting", "x"))
	fails(t, export(waiting), connector.CodeConflict)
	c := b.dispatched("lost")
	fails(t, export(c.OperationRecord), connector.CodeConflict)
	b.finish(c, connector.Outcome{State: connector.StateUnknown})
	fails(t, export(c.OperationRecord), connector.CodeConflict)
	if _, err := b.Settle(ctx, acme, string(c.ID), Verdict{State: connector.StateApplied, By: "carol", Reason: "seen"}); err != nil {
		t.Fatal(err)
	}
	fails(t, export(c.OperationRecord), connector.CodeConflict)
	c = b.proven("proven")
	if err := export(c.OperationRecord); err != nil {
		t.Fatal(err)
	}
	_, err := b.ExportReceipt(ctx, acme, string(c.ID)) // a ledger without a signing key
	fails(t, err, connector.CodeUnavailable)
	// A digest that was changed behind the ledger's back is not signed.
	err = b.db.UpdateFor(ctx, store.AllTenants(), func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE operation SET digest = 'other' WHERE id = ?`, c.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	fails(t, export(c.OperationRecord), connector.CodeInternal)
}

// Guarantee: TIX6
func TestChangedReceiptDoesNotVerify(t *testing.T) {
	signer, err := keys.NewSigner()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := sign(signer, Statement{Kind: ReceiptPurpose, Tenant: acme, ExternalID: "T-77", Proof: "committed", Differences: []connector.Change{}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(signed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyReceipt(raw, signer.Public()); err != nil {
		t.Fatal(err)
	}
	stranger, err := keys.NewSigner()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyReceipt(raw, stranger.Public()); !errors.Is(err, keys.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	swap := func(old, new string) []byte {
		if !bytes.Contains(raw, []byte(old)) {
			t.Fatalf("the receipt has no %s", old)
		}
		return bytes.Replace(raw, []byte(old), []byte(new), 1)
	}
	for name, changed := range map[string][]byte{
		"another ticket":           swap(`T-77`, `T-78`),
		"a stronger proof":         swap(`"committed"`, `"verified"`),
		"a key more":               swap(`"tenant":"acme"`, `"tenant":"acme","z":""`),
		"a key twice":              swap(`"tenant":"acme"`, `"tenant":"evil","tenant":"acme"`),
		"a key in another case":    swap(`"tenant":"acme"`, `"Tenant":"acme"`),
		"a key less":               swap(`"tool":"",`, ``),
		"null for text":            swap(`"tool":""`, `"tool":null`),
		"a number":                 swap(`"tool":""`, `"tool":1`),
		"a key of the envelope":    swap(`"algorithm"`, `"note":"","algorithm"`),
		"another algorithm":        swap(`"Ed25519"`, `"none"`),
		"no signature":             swap(signed.Signature, ``),
		"text behind it":           append(bytes.Clone(raw), '{', '}'),
		"a lone surrogate":         swap(`"tool":""`, `"tool":"\ud800"`),
		"not UTF-8":                swap(`"tool":""`, "\"tool\":\"\xff\""),
		"the statement alone":      signed.Statement,
		"nothing":                  nil,
		"deeper than any receipt":  []byte(strings.Repeat(`[`, 100000)),
		"longer than any receipts": append(bytes.Clone(raw), bytes.Repeat([]byte(" "), maxSigned)...),
	} {
		if s, err := VerifyReceipt(changed, signer.Public()); err == nil || s.Kind != "" {
			t.Errorf("%s: verified", name)
		}
	}
	// What a formatter does to a file changes nothing.
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyReceipt(sorted, signer.Public()); err != nil {
		t.Errorf("formatted: %v", err)
	}
}

// The examples of RFC 8785, section 3.2, as far as they are texts.
func TestCanonicalTextFollowsRFC8785(t *testing.T) {
	for in, want := range map[string]string{
		`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
			`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`: `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`: `"€$\u000f\nA'B\"\\\\\"/"`,
		` [ "b" , "a" , { } ] `:                           `["b","a",{}]`,
	} {
		got, err := canonicalText([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s is %s (%v), want %s", in, got, err, want)
		}
	}
}

func TestCanonicalTextKeepsEveryText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "object")
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		once, err := canonicalText(raw)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := canonicalText(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("canonical twice: %s and %s (%v)", once, twice, err)
		}
		var got map[string]string
		if err := json.Unmarshal(once, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzVerifyReceipt(f *testing.F) {
	signer, err := keys.NewSigner()
	if err != nil {
		f.Fatal(err)
	}
	signed, err := sign(signer, Statement{Kind: ReceiptPurpose, Tenant: acme, Differences: []connector.Change{}})
	if err != nil {
		f.Fatal(err)
	}
	raw, _ := json.Marshal(signed)
	f.Add(raw)
	f.Add([]byte(`{"a":"\ud800\udc00","b":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := VerifyReceipt(raw, signer.Public())
		if err == nil && (s.Tenant != acme || s.Kind != ReceiptPurpose) {
			t.Errorf("verified a statement that was never signed: %+v", s)
		}
		if c, err := canonicalText(raw); err == nil && (!utf8.Valid(c) || !json.Valid(c)) {
			t.Errorf("the canonical form of %q is %q", raw, c)
		}
	})
}
