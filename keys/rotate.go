package keys

import (
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// Add makes a new key that opens but does not seal, and returns its id. Let
// every process learn it before Promote.
func (r *Ring) Add() (uint32, error) {
	var id uint32
	err := r.change("add", func(m *keyset.Manager, s *keySet) (err error) {
		if len(s.infos) >= maxKeys {
			return fmt.Errorf("the ring has %d keys, destroy old ones first", maxKeys)
		}
		id, err = m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
	return id, err
}

// Promote makes an enabled key the primary. Promoting the primary changes
// nothing.
func (r *Ring) Promote(id uint32) error {
	return r.change("promote", func(m *keyset.Manager, s *keySet) error {
		if !s.enabled[id] {
			return fmt.Errorf("key %d: %w", id, ErrKeyUnavailable)
		}
		return m.SetPrimary(id)
	})
}

// Disable takes a key out of use without destroying it. The primary is
// refused: promote another one first.
func (r *Ring) Disable(id uint32) error {
	return r.change("disable", func(m *keyset.Manager, s *keySet) error {
		if err := s.spare(id); err != nil {
			return err
		}
		return m.Disable(id)
	})
}

// Enable takes back Disable.
func (r *Ring) Enable(id uint32) error {
	return r.change("enable", func(m *keyset.Manager, s *keySet) error {
		if !s.has(id) {
			return fmt.Errorf("key %d: %w", id, ErrKeyUnavailable)
		}
		return m.Enable(id)
	})
}

// Destroy removes a disabled key. What is sealed with it is lost, in backups
// too, so an enabled key is refused: a time of being disabled shows whether
// something still needs it.
func (r *Ring) Destroy(id uint32) error {
	return r.change("destroy", func(m *keyset.Manager, s *keySet) error {
		if err := s.spare(id); err != nil {
			return err
		}
		if s.enabled[id] {
			return fmt.Errorf("key %d is enabled, disable it first", id)
		}
		return m.Delete(id)
	})
}

// DestroyUnused is Destroy for a key that nothing is sealed with any more. Each
// counter returns how many stored values it knows under the key; if one of them
// finds any, or fails, the key stays. Ask all who seal with the ring. Backups
// are not counted: let them expire first.
func (r *Ring) DestroyUnused(id uint32, inUse ...func(id uint32) (int, error)) error {
	if len(inUse) == 0 {
		return errors.New("keys: destroy: nobody was asked what is sealed with the key")
	}
	for _, count := range inUse {
		n, err := count(id)
		if err != nil {
			return fmt.Errorf("keys: destroy: key %d: its use is not known: %w", id, err)
		}
		if n > 0 {
			return fmt.Errorf("keys: destroy: key %d: %w (%d values)", id, ErrInUse, n)
		}
	}
	return r.Destroy(id)
}

func (s *keySet) has(id uint32) bool {
	for _, info := range s.infos {
		if info.ID == id {
			return true
		}
	}
	return false
}

func (s *keySet) spare(id uint32) error {
	if !s.has(id) {
		return fmt.Errorf("key %d: %w", id, ErrKeyUnavailable)
	}
	if id == s.primary {
		return fmt.Errorf("key %d is the primary", id)
	}
	return nil
}

// change applies edit to the newest state, saves, and only then uses it: a key
// that seals before it is on disk would lose what it sealed.
func (r *Ring) change(what string, edit func(*keyset.Manager, *keySet) error) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.current.Load() == nil {
		return fmt.Errorf("keys: %s: %w", what, ErrKeyUnavailable)
	}
	if r.path != "" {
		unlock, err := lockFile(r.path + ".lock")
		if err != nil {
			return fmt.Errorf("keys: %s: lock the key file: %w", what, err)
		}
		defer unlock()
		// Another process may have changed the file since it was read.
		if err := r.load(); err != nil {
			return err
		}
	}
	old := r.current.Load()
	manager := keyset.NewManagerFromHandle(old.handle)
	if err := edit(manager, old); err != nil {
		return fmt.Errorf("keys: %s: %w", what, err)
	}
	handle, err := manager.Handle()
	if err != nil {
		return errors.New("keys: " + what + ": the changed keyset is not valid")
	}
	set, err := newKeySet(handle)
	if err != nil {
		return fmt.Errorf("keys: %s: %w", what, err)
	}
	if r.path != "" {
		if err := set.save(r.path, r.kms); err != nil {
			return fmt.Errorf("keys: %s: save: %w", what, err)
		}
		return r.load()
	}
	r.current.Store(set)
	return nil
}
