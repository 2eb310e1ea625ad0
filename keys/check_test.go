package keys_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/keys"
)

// keyText is the part of a ring's text that the tests damage.
type keyText struct {
	Checks       map[string]string `json:"checks,omitempty"`
	PrimaryKeyID uint32            `json:"primaryKeyId"`
	Key          []struct {
		KeyData struct {
			TypeURL         string `json:"typeUrl"`
			Value           string `json:"value"`
			KeyMaterialType string `json:"keyMaterialType"`
		} `json:"keyData"`
		Status           string `json:"status"`
		KeyID            uint32 `json:"keyId"`
		OutputPrefixType string `json:"outputPrefixType"`
	} `json:"key"`
}

// threeKeys is a file with an old disabled key, an enabled one and the primary.
func threeKeys(t *testing.T) (path string, doc keyText) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ring.json")
	r := openFile(t, path)
	oldest := r.Primary()
	for range 2 {
		id, err := r.Add()
		ok(t, err)
		ok(t, r.Promote(id))
	}
	ok(t, r.Disable(oldest))
	text, err := os.ReadFile(path)
	ok(t, err)
	ok(t, json.Unmarshal(text, &doc))
	if len(doc.Key) != 3 || len(doc.Checks) != 3 {
		t.Fatalf("%d keys and %d checks, want 3 of each", len(doc.Key), len(doc.Checks))
	}
	return path, doc
}

func write(t *testing.T, path string, doc keyText) {
	t.Helper()
	text, err := json.Marshal(doc)
	ok(t, err)
	ok(t, os.WriteFile(path, text, 0o600))
}

// Threat T18: one bit of a key makes another valid key, which opens nothing.
func TestDamagedKeyIsNoticedWhenTheFileIsOpened(t *testing.T) {
	path, doc := threeKeys(t)
	for i := range doc.Key {
		good := doc.Key[i].KeyData.Value
		raw, err := base64.StdEncoding.DecodeString(good)
		ok(t, err)
		for _, at := range []int{len(raw) - 1, len(raw) - 32, len(raw) - 17} {
			changed := bytes.Clone(raw)
			changed[at] ^= 0x10
			doc.Key[i].KeyData.Value = base64.StdEncoding.EncodeToString(changed)
			write(t, path, doc)
			_, err := keys.OpenFile(path)
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("key %d with byte %d changed: %v", i, at, err)
			} else if strings.Contains(err.Error(), doc.Key[i].KeyData.Value) {
				t.Errorf("error shows the key: %v", err)
			}
		}
		doc.Key[i].KeyData.Value = good
	}
	write(t, path, doc)
	openFile(t, path) // and the undamaged one is fine
}

func TestExchangedAndLostKeysAreNoticed(t *testing.T) {
	path, doc := threeKeys(t)
	a, b := &doc.Key[0].KeyData.Value, &doc.Key[1].KeyData.Value
	*a, *b = *b, *a
	write(t, path, doc)
	if _, err := keys.OpenFile(path); err == nil {
		t.Error("two keys that changed places: opened")
	}
	*a, *b = *b, *a
	doc.Key = doc.Key[1:]
	write(t, path, doc)
	if _, err := keys.OpenFile(path); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a key that was cut out: %v", err)
	}
}

func TestPlainKeysetGetsItsChecks(t *testing.T) {
	path, doc := threeKeys(t)
	doc.Checks = nil
	write(t, path, doc)
	r := openFile(t, path)
	_, err := r.Add()
	ok(t, err)
	text, err := os.ReadFile(path)
	ok(t, err)
	doc = keyText{}
	ok(t, json.Unmarshal(text, &doc))
	if len(doc.Checks) != 4 {
		t.Errorf("%d checks after a change, want one for each of 4 keys", len(doc.Checks))
	}
	for id := range doc.Checks {
		doc.Checks[id] = "AAAA"
	}
	write(t, path, doc)
	if _, err := keys.OpenFile(path); err == nil {
		t.Error("checks that are no sealed values: opened")
	}
}

// Guarantee: CRE4 (C37): a key stays as long as anything needs it.
func TestKeyInUseIsNotDestroyed(t *testing.T) {
	r := newRing(t)
	old := r.Primary()
	next, err := r.Add()
	ok(t, err)
	ok(t, r.Promote(next))
	ok(t, r.Disable(old))
	asked := 0
	count := func(n int, err error) func(uint32) (int, error) {
		return func(id uint32) (int, error) {
			asked++
			if id != old {
				t.Errorf("asked for key %d, want %d", id, old)
			}
			return n, err
		}
	}
	away := errors.New("database is away")
	if err := r.DestroyUnused(old); err == nil {
		t.Error("destroyed without asking anybody")
	}
	if err := r.DestroyUnused(old, count(0, nil), count(1, nil)); !errors.Is(err, keys.ErrInUse) {
		t.Errorf("one value left: %v, want ErrInUse", err)
	}
	if err := r.DestroyUnused(old, count(0, nil), count(0, away)); !errors.Is(err, away) {
		t.Errorf("count failed: %v", err)
	}
	if n := len(r.Keys()); n != 2 {
		t.Fatalf("%d keys after refusals, want 2", n)
	}
	ok(t, r.DestroyUnused(old, count(0, nil), count(0, nil)))
	if asked != 6 {
		t.Errorf("counters were asked %d times, want 6", asked)
	}
	if n := len(r.Keys()); n != 1 {
		t.Errorf("%d keys at the end, want 1", n)
	}
}
