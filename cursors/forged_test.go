package cursors

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

func TestEveryFlippedBitOfTheSealedBytesIsRefused(t *testing.T) {
	c := codec(t, ring(t))
	cursor := seal(t, c, binding(), "position")
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(cursor, prefix))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			flipped := slices.Clone(raw)
			flipped[i] ^= 1 << bit
			refused(t, c, binding(), prefix+base64.RawURLEncoding.EncodeToString(flipped), "flipped bit")
		}
	}
}

func TestThereIsOneTextPerCursor(t *testing.T) {
	c := codec(t, ring(t))
	raw := func(cursor string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(cursor, prefix))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, position := range []string{"", "a", "ab"} { // all remainders of three
		cursor := seal(t, c, binding(), position)
		sealed := raw(cursor)
		padded := base64.URLEncoding.EncodeToString(sealed)
		if strings.HasSuffix(padded, "=") {
			refused(t, c, binding(), prefix+padded, "padded")
		}
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		for _, last := range alphabet {
			other := cursor[:len(cursor)-1] + string(last)
			if other != cursor {
				refused(t, c, binding(), other, "other last letter")
			}
		}
		refused(t, c, binding(), strings.TrimPrefix(cursor, prefix), "no prefix")
		refused(t, c, binding(), "c2_"+strings.TrimPrefix(cursor, prefix), "another format")
		refused(t, c, binding(), "C1_"+strings.TrimPrefix(cursor, prefix), "prefix in capitals")
	}
	refused(t, c, binding(), "", "empty")
	refused(t, c, binding(), prefix, "prefix only")
}

func TestTooLongOrMalformedIsRefusedBeforeTheRingIsAsked(t *testing.T) {
	r := &counting{}
	c := codec(t, r)
	for _, cursor := range []string{prefix + strings.Repeat("A", maxText), strings.Repeat("A", 1<<20), "AAAA", prefix + "AA=A", prefix + "A", prefix + "AA\nAA"} {
		refused(t, c, binding(), cursor, "malformed")
	}
	if r.opens != 0 {
		t.Errorf("the ring was asked %d times, want 0", r.opens)
	}
	refused(t, c, binding(), prefix+"AAAA", "a plaintext too short for an expiry")
	if r.opens != 1 {
		t.Errorf("the ring was asked %d times, want 1", r.opens)
	}
}

func FuzzOpen(f *testing.F) {
	c := codec(f, ring(f))
	good := seal(f, c, binding(), "p")
	f.Add(prefix)
	f.Add(good[:len(good)-1])
	f.Add(good + "\n")
	f.Add("c1_AA==")
	f.Fuzz(func(t *testing.T, cursor string) {
		if cursor != good { // nobody but Seal makes a cursor
			refused(t, c, binding(), cursor, "foreign text")
		}
	})
}
