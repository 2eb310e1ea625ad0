package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// Beside each key its text keeps a known value sealed with it. A key of which a
// bit was changed is a valid key that opens nothing; with the value that shows
// when the ring is opened, and not as thousands of damaged records.
const (
	checkMember = "checks"
	checkValue  = "drawbridge key check"
)

func checkContext(id uint32) []byte {
	return Context("keys/check/v1", strconv.FormatUint(uint64(id), 10))
}

// alone is the set with the given key as its primary, whatever its status is.
func (s *keySet) alone(id uint32) (*keySet, error) {
	m := keyset.NewManagerFromHandle(s.handle)
	if err := errors.Join(m.Enable(id), m.SetPrimary(id)); err != nil {
		return nil, errors.New("key can't be used")
	}
	handle, err := m.Handle()
	if err != nil {
		return nil, errors.New("key can't be used")
	}
	one := &keySet{handle: handle, primary: id}
	if one.aead, err = aead.New(handle); err != nil {
		return nil, errors.New("key can't be used")
	}
	return one, nil
}

// withChecks adds to a keyset's JSON the check of each of its keys.
func (s *keySet) withChecks(text []byte) ([]byte, error) {
	checks := make(map[string][]byte)
	for _, info := range s.infos {
		one, err := s.alone(info.ID)
		if err != nil {
			return nil, fmt.Errorf("keys: check of key %d: %w", info.ID, err)
		}
		sealed, err := one.aead.Encrypt([]byte(checkValue), checkContext(info.ID))
		if err != nil {
			return nil, fmt.Errorf("keys: check of key %d can't be made", info.ID)
		}
		checks[strconv.FormatUint(uint64(info.ID), 10)] = sealed
	}
	doc := make(map[string]any)
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, errors.New("keys: the keyset can't be written")
	}
	doc[checkMember] = checks
	return json.Marshal(doc)
}

// splitChecks takes the checks out of a ring's text. Text without any, as other
// programs write it, is returned as it is.
func splitChecks(text []byte) (rest []byte, checks map[string][]byte, err error) {
	var doc map[string]json.RawMessage
	if json.Unmarshal(text, &doc) != nil || doc[checkMember] == nil {
		return text, nil, nil // the keyset's own reader says what is wrong
	}
	if json.Unmarshal(doc[checkMember], &checks) != nil {
		return nil, nil, errors.New("malformed keyset")
	}
	delete(doc, checkMember)
	if rest, err = json.Marshal(doc); err != nil {
		return nil, nil, errors.New("malformed keyset")
	}
	return rest, checks, nil
}

// verify compares each key with its check. A key without one is accepted: the
// next change of the ring adds it. A check without a key tells of a key that
// was lost.
func (s *keySet) verify(checks map[string][]byte) error {
	for text, sealed := range checks {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || !s.has(uint32(n)) {
			return errors.New("a key is missing that the checks name")
		}
		id := uint32(n)
		one, err := s.alone(id)
		if err != nil {
			return fmt.Errorf("key %d: %w", id, err)
		}
		// Tink would try another key with the same id, of which there is none.
		plain, err := one.aead.Decrypt(sealed, checkContext(id))
		if err != nil || string(plain) != checkValue {
			return fmt.Errorf("key %d is damaged: it does not open its own check; restore the key file from a backup", id)
		}
	}
	return nil
}
