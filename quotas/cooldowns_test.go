package quotas

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/drawbridge-dev/drawbridge/store"
	"github.com/drawbridge-dev/drawbridge/store/storetest"
)

func replica(t testing.TB, db *store.DB) *Cooldowns {
	t.Helper()
	c, err := New(Config{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// age makes a replica ask the database again, as a second later it would.
func (c *Cooldowns) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, e := range c.known {
		e.read = time.Time{}
		c.known[k] = e
	}
}

func until(t testing.TB, c *Cooldowns, key string) time.Time {
	t.Helper()
	at, err := c.Until(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// near allows for rounding up and for what passes between two readings of a clock.
func near(got, want time.Time) bool {
	return !got.Before(want.Add(-time.Second)) && got.Before(want.Add(grain+time.Second))
}

func rows(t testing.TB, db *store.DB) (n int) {
	t.Helper()
	if err := db.QueryRowFor(t.Context(), store.AllTenants(), `SELECT count(*) FROM quota_cooldown`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Guarantee: NET6
// Guarantee: NET7
func TestReplicasShareACooldown(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		one, two := replica(t, d.Open(Migrations())), replica(t, d.Open(Migrations()))
		const key, other, foreign = "acme/conn-1/core", "acme/conn-2/core", "globex/conn-1/core"
		for _, k := range []string{key, other, foreign} {
			if at := until(t, two, k); !at.IsZero() {
				t.Errorf("%s ends at %v before anything ran", k, at)
			}
		}
		end := time.Now().Add(time.Hour)
		if err := one.Extend(t.Context(), key, end); err != nil {
			t.Fatal(err)
		}
		if at := until(t, one, key); at.Before(end) || !near(at, end) {
			t.Errorf("our own ends at %v, want %v", at, end)
		}
		two.age()
		if at := until(t, two, key); at.Before(end) || !near(at, end) {
			t.Errorf("the other replica sees %v, want %v", at, end)
		}
		for _, k := range []string{other, foreign} {
			if at := until(t, two, k); !at.IsZero() {
				t.Errorf("%s ends at %v, want never begun", k, at)
			}
		}
		// A later process knows it as well.
		if at := until(t, replica(t, d.Open(Migrations())), key); !near(at, end) {
			t.Errorf("after a restart it ends at %v, want %v", at, end)
		}
	})
}

func TestReadsAreCachedForASecond(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		one, two := replica(t, d.Open(Migrations())), replica(t, d.Open(Migrations()))
		until(t, two, "a/b/c")
		if err := one.Extend(t.Context(), "a/b/c", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		two.mu.Lock()
		two.known["a/b/c"] = entry{read: time.Now().Add(freshFor / 2)} // still fresh, however slow this is
		two.mu.Unlock()
		if at := until(t, two, "a/b/c"); !at.IsZero() {
			t.Errorf("read %v from the database within the second", at)
		}
		two.age()
		if at := until(t, two, "a/b/c"); at.IsZero() {
			t.Error("not read after the second")
		}
	})
}

func TestACooldownIsNeverShortened(t *testing.T) {
	d := storetest.SQLite(t)
	dbs := []*store.DB{d.Open(Migrations()), d.Open(Migrations())}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		key := fmt.Sprintf("acme/conn-%d/", n)
		replicas := []*Cooldowns{replica(t, dbs[0]), replica(t, dbs[1])}
		start := time.Now()
		latest := start
		for range rapid.IntRange(1, 4).Draw(rt, "steps") {
			end := start.Add(time.Duration(rapid.IntRange(-10, 200).Draw(rt, "minutes")) * time.Minute)
			if err := replicas[rapid.IntRange(0, 1).Draw(rt, "replica")].Extend(t.Context(), key, end); err != nil {
				rt.Fatal(err)
			}
			if end.After(latest) {
				latest = end
			}
		}
		for i, r := range replicas {
			r.age()
			at := until(t, r, key)
			if latest.Equal(start) != at.IsZero() || !at.IsZero() && !near(at, latest) {
				rt.Fatalf("replica %d: ends at %v, want %v", i, at, latest)
			}
		}
	})
}

func TestExpiredRowsAreRemoved(t *testing.T) {
	storetest.EachOwner(t, func(t *testing.T, d storetest.Database) {
		db := d.Open(Migrations())
		c := replica(t, db)
		past := time.Now().Add(-time.Minute).UnixMilli()
		err := db.UpdateFor(t.Context(), store.AllTenants(), func(tx *store.Tx) error {
			for _, tenant := range []string{"acme", "globex"} {
				if _, err := tx.Exec(t.Context(), `INSERT INTO quota_cooldown (tenant, name, ends_at) VALUES (?, 'c/old', ?)`, tenant, past); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if at := until(t, c, "acme/c/old"); at.After(time.Now()) {
			t.Errorf("an expired row runs until %v", at)
		}
		if err := c.Extend(t.Context(), "acme/c/new", time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if n := rows(t, db); n != 2 {
			t.Errorf("%d rows, want the new one and the other tenant's", n)
		}
		if n, err := c.Sweep(t.Context()); err != nil || n != 1 || rows(t, db) != 1 {
			t.Errorf("swept %d, %v, %d rows left; want 1, nil, 1", n, err, rows(t, db))
		}
	})
}

// The database's clock decides, whatever the replica's says.
func TestClocksThatDiffer(t *testing.T) {
	d := storetest.SQLite(t)
	one, two := replica(t, d.Open(Migrations())), replica(t, d.Open(Migrations()))
	end := time.Now().Add(time.Hour)
	if err := one.Extend(t.Context(), "a/b/c", end); err != nil {
		t.Fatal(err)
	}
	two.skew, two.asked = 10*time.Minute, time.Now() // ours is ten minutes behind
	if at := until(t, two, "a/b/c"); !near(at, end.Add(-10*time.Minute)) {
		t.Errorf("ends at %v by the slow clock, want %v", at, end.Add(-10*time.Minute))
	}
}

func TestManyRefusalsAtOnceAreOneRow(t *testing.T) {
	db := storetest.SQLite(t).Open(Migrations())
	c := replica(t, db)
	end := time.Now().Add(time.Hour).Truncate(grain)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := c.Extend(t.Context(), "a/b/c", end); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := rows(t, db); n != 1 {
		t.Errorf("%d rows", n)
	}
	c.mu.Lock()
	stored := c.known["a/b/c"].stored
	c.mu.Unlock()
	if !stored {
		t.Error("not known to be stored: every refusal would write")
	}
	// So a repetition touches nothing, which a closed database shows.
	broken := replica(t, closed(t))
	broken.known["a/b/c"] = entry{until: end, read: time.Now(), stored: true}
	if err := broken.Extend(t.Context(), "a/b/c", end); err != nil {
		t.Errorf("a repetition was written: %v", err)
	}
}

func closed(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Config{URL: storetest.SQLite(t).URL, Migrations: []store.Migrations{Migrations()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestBrokenDatabaseStopsNoRead(t *testing.T) {
	c := replica(t, closed(t))
	if _, err := c.Until(t.Context(), "a/b/c"); err == nil {
		t.Error("the failure is not reported")
	}
	if at, err := c.Until(t.Context(), "a/b/c"); err != nil || !at.IsZero() {
		t.Errorf("within the second: %v, %v; want no cooldown and no second try", at, err)
	}
	// What this process was told itself is honoured all the same.
	end := time.Now().Add(time.Hour)
	if err := c.Extend(t.Context(), "a/b/c", end); err == nil {
		t.Error("a lost row is not reported")
	}
	for range 2 {
		if at, err := c.Until(t.Context(), "a/b/c"); err != nil || !near(at, end) {
			t.Errorf("our own cooldown: %v, %v", at, err)
		}
		c.age()
	}
}

func TestACallerThatLeftTeachesNothing(t *testing.T) {
	c := replica(t, storetest.SQLite(t).Open(Migrations()))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Until(gone, "a/b/c"); err == nil {
		t.Fatal("a canceled read went well")
	}
	if read := c.known["a/b/c"].read; !read.IsZero() {
		t.Error("nobody asks the database for a second because one caller left")
	}
}

func TestBadKeysAndTimes(t *testing.T) {
	db := storetest.SQLite(t).Open(Migrations())
	c := replica(t, db)
	for _, key := range []string{"", "acme", "/conn/", "acme/", "a/\x00", "a/\xff", "a/" + strings.Repeat("x", maxKey)} {
		if _, err := c.Until(t.Context(), key); err == nil {
			t.Errorf("Until(%.20q) went well", key)
		}
		if err := c.Extend(t.Context(), key, time.Now().Add(time.Hour)); err == nil {
			t.Errorf("Extend(%.20q) went well", key)
		}
	}
	if err := c.Extend(t.Context(), "a/b/past", time.Now().Add(-time.Second)); err != nil {
		t.Error(err)
	}
	if n := rows(t, db); n != 0 {
		t.Errorf("%d rows", n)
	}
	if err := c.Extend(t.Context(), "a/b/far", time.Now().AddDate(9, 0, 0)); err != nil {
		t.Error(err)
	}
	if at := until(t, c, "a/b/far"); at.After(time.Now().Add(longest + time.Minute)) {
		t.Errorf("nine years became %v", at)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New without a database went well")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	c := &Cooldowns{known: map[string]entry{}}
	running := time.Now().Add(time.Hour)
	for i := range 3 * maxKnown {
		e := entry{}
		if i%3 == 0 {
			e.until = running
		}
		c.keep(fmt.Sprint(i), e)
	}
	if n := len(c.known); n > maxKnown {
		t.Errorf("%d keys are remembered", n)
	}
}
