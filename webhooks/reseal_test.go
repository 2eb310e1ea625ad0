package webhooks

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// After a key was turned over nothing needs the old one, and all opens still.
func TestReseal(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		before := ring().Primary()
		const deliveries = 210 // more than a page
		body := `"orders/1"`
		for i := range deliveries {
			h.post(http.StatusAccepted, h.github.Path, github(fmt.Sprint("d", i), body), body)
		}
		after, err := ring().Add()
		must(t, err)
		must(t, ring().Promote(after))
		used, err := h.s.SealedBy(t.Context())
		must(t, err)
		if diff := cmp.Diff(map[uint32]int{before: deliveries + 1}, used); diff != "" {
			t.Errorf("before (-want +got):\n%s", diff)
		}
		n, err := h.s.Reseal(t.Context())
		must(t, err)
		used, err = h.s.SealedBy(t.Context())
		must(t, err)
		if diff := cmp.Diff(map[uint32]int{after: deliveries + 1}, used); diff != "" || n != deliveries+1 {
			t.Errorf("%d changed; after (-want +got):\n%s", n, diff)
		}
		_, got, err := h.s.Inbox().Body(t.Context(), "acme", h.records()[0].ID)
		if err != nil || string(got) != body {
			t.Errorf("body %q, %v", got, err)
		}
		h.s.receiver.known.forget()
		h.post(http.StatusAccepted, h.github.Path, github("again", body), body)
		if n, err := h.s.Reseal(t.Context()); err != nil || n != 0 {
			t.Errorf("a second time: %d changed, %v", n, err)
		}
	})
}
