package mirror

import "testing"

// Data is counted and sealed anew without a change that a reader sees; a
// tombstone holds nothing to count.
func TestReseal(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(3)
		must(t, h.m.Sweep(t.Context(), h.conn))
		h.drain()
		h.p.set("t002", thing{state: Gone})
		h.mark(true, "t002")
		h.drain()
		heads := map[string]bool{}
		see := func(head []byte) { heads[string(head)] = true }
		must(t, h.m.EachSealed(t.Context(), see))
		if len(heads) != 2 {
			t.Fatalf("%d sealed values, want 2", len(heads))
		}
		n, err := h.m.Reseal(t.Context(), func(head []byte) bool { return heads[string(head)] })
		if n != 2 || err != nil {
			t.Errorf("resealed %d, %v", n, err)
		}
		must(t, h.m.EachSealed(t.Context(), see))
		if len(heads) != 4 {
			t.Errorf("%d different sealed values, want the old and the new ones", len(heads))
		}
		h.shows(t)
	})
}

// Tick reconciles who was ever seen, by the connection as it is now, and has no
// fault when one of them is gone.
// Guarantee: HOO5
func TestTick(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, h *house) {
		h.fill(3)
		must(t, h.m.Tick(t.Context()))
		if len(h.p.lists) > 0 {
			t.Error("a connection that nobody named was listed")
		}
		must(t, h.m.Reconcile(t.Context(), h.conn))
		h.drain()
		h.p.authz = 2
		must(t, h.m.Tick(t.Context()))
		h.drain()
		h.conn.AuthzVersion = 2
		h.shows(t)
		h.p.gone = true
		must(t, h.m.Tick(t.Context()))
	})
}
