package credentials

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The margin is a tenth of the lifetime between one and five minutes, at most
// half of a short lifetime, and less by up to a tenth.
func TestEarlyMargin(t *testing.T) {
	tests := []struct{ lifetime, margin time.Duration }{
		{40 * time.Second, 20 * time.Second},
		{5 * time.Minute, time.Minute},
		{20 * time.Minute, 2 * time.Minute},
		{time.Hour, 5 * time.Minute},
		{30 * 24 * time.Hour, 5 * time.Minute},
	}
	at := time.UnixMilli(1_800_000_000_000)
	for _, test := range tests {
		r := record{hasRefresh: true, issuedAt: at, accessExp: at.Add(test.lifetime)}
		for _, owner := range []string{"a", "b", "c", "d"} {
			if r.dueEarly(r.accessExp.Add(-test.margin-time.Millisecond), owner) {
				t.Errorf("lifetime %v: due before the margin of %v", test.lifetime, test.margin)
			}
			if !r.dueEarly(r.accessExp.Add(-test.margin*9/10), owner) {
				t.Errorf("lifetime %v: not due at nine tenths of %v", test.lifetime, test.margin)
			}
		}
	}
}

func TestNotDueEarly(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	live := record{hasRefresh: true, issuedAt: at.Add(-time.Hour), accessExp: at.Add(time.Second)}
	if !live.dueEarly(at, "a") {
		t.Fatal("the case to vary is not due itself")
	}
	for name, change := range map[string]func(*record){
		"unknown lifetime": func(r *record) { r.accessExp = time.Time{} },
		"no refresh token": func(r *record) { r.hasRefresh = false },
		"told to wait":     func(r *record) { r.nextTry = at.Add(time.Minute) },
	} {
		r := live
		change(&r)
		if r.dueEarly(at, "a") {
			t.Errorf("%s: due", name)
		}
	}
}

// A token that was just issued is never due, so a renewal can't start another.
func TestFreshTokenIsNotDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(1_800_000_000_000)
		life := time.Duration(rapid.Int64Range(1, int64(maxLifetime/time.Millisecond)).Draw(t, "lifetime")) * time.Millisecond
		r := record{hasRefresh: true, issuedAt: at, accessExp: at.Add(life)}
		if r.dueEarly(at, rapid.String().Draw(t, "owner")) {
			t.Fatalf("due at once with a lifetime of %v", life)
		}
	})
}

func TestExpiredKeepsADistance(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	for _, test := range []struct{ lifetime, before time.Duration }{{10 * time.Minute, 10 * time.Second}, {6 * time.Second, 3 * time.Second}} {
		r := record{issuedAt: at, accessExp: at.Add(test.lifetime)}
		if r.expired(r.accessExp.Add(-test.before-time.Millisecond)) || !r.expired(r.accessExp.Add(-test.before)) {
			t.Errorf("lifetime %v: want expired from %v before its end", test.lifetime, test.before)
		}
	}
	if (&record{issuedAt: at}).expired(at.Add(1000 * time.Hour)) {
		t.Error("a token of unknown lifetime expired")
	}
}
