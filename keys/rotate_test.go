package keys_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-dev/drawbridge/keys"
)

func openFile(tb testing.TB, path string) *keys.Ring {
	tb.Helper()
	r, err := keys.OpenFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func ok(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func opens(t *testing.T, r *keys.Ring, sealed []byte, want error) {
	t.Helper()
	got, err := r.Open(sealed, nil)
	if want == nil && (err != nil || string(got) != "x") || !errors.Is(err, want) {
		t.Errorf("Open = %q, %v, want error %v", got, err, want)
	}
}

// Two processes share one file; the second is never told anything.
//
// Guarantee: CRE4
func TestKeysTurnOverWithoutStoppingAnyone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ring.json")
	admin, server := openFile(t, path), openFile(t, path)
	old := admin.Primary()
	if server.Primary() != old {
		t.Fatal("two rings on one file have different keys")
	}
	underOld := seal(t, server, "x", nil)

	next, err := admin.Add()
	ok(t, err)
	if id, _ := keys.KeyID(seal(t, admin, "x", nil)); id != old {
		t.Errorf("sealed with key %d before it was promoted", id)
	}
	ok(t, admin.Promote(next))
	underNew := seal(t, admin, "x", nil)
	opens(t, server, underNew, nil)
	opens(t, server, underOld, nil)
	opens(t, admin, underOld, nil)
	want := []keys.KeyInfo{{ID: old, Status: keys.Enabled}, {ID: next, Status: keys.Enabled, Primary: true}}
	if diff := cmp.Diff(want, server.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}

	ok(t, admin.Disable(old))
	opens(t, admin, underOld, keys.ErrKeyUnavailable)
	ok(t, admin.Enable(old))
	opens(t, admin, underOld, nil)

	ok(t, admin.Disable(old))
	ok(t, admin.Destroy(old))
	opens(t, admin, underOld, keys.ErrKeyUnavailable)
	opens(t, admin, underNew, nil)
	ok(t, server.Reload())
	opens(t, server, underOld, keys.ErrKeyUnavailable)
	if diff := cmp.Diff([]keys.KeyInfo{{ID: next, Status: keys.Enabled, Primary: true}}, server.Keys()); diff != "" {
		t.Errorf("keys at the end (-want +got):\n%s", diff)
	}
}

// A process that learned nothing must not seal with a key that was retired:
// the value would be lost when the key is destroyed.
func TestSealNoticesPromotionElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ring.json")
	admin, server := openFile(t, path), openFile(t, path)
	old := admin.Primary()
	next, err := admin.Add()
	ok(t, err)
	ok(t, admin.Promote(next))
	ok(t, admin.Disable(old))
	ok(t, admin.Destroy(old))
	sealed := seal(t, server, "x", nil)
	if id, _ := keys.KeyID(sealed); id != next {
		t.Errorf("sealed with key %d, want %d", id, next)
	}
	opens(t, admin, sealed, nil)
}

func TestSealStopsWhenTheFileIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ring.json")
	r := openFile(t, path)
	sealed := seal(t, r, "x", nil)
	ok(t, os.Remove(path))
	if _, err := r.Seal([]byte("x"), nil); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("Seal without the file: %v", err)
	}
	opens(t, r, sealed, nil)
	if err := r.Reload(); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("Reload without the file: %v", err)
	}
	opens(t, r, sealed, nil)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new key file appeared in place of the lost one: %v", err)
	}
}

func TestRefusedChanges(t *testing.T) {
	r := newRing(t)
	spare, err := r.Add()
	ok(t, err)
	unknown := spare + 1
	for unknown == r.Primary() {
		unknown++
	}
	before := r.Keys()
	for name, err := range map[string]error{
		"promote unknown": r.Promote(unknown),
		"disable unknown": r.Disable(unknown),
		"enable unknown":  r.Enable(unknown),
		"destroy unknown": r.Destroy(unknown),
	} {
		if !errors.Is(err, keys.ErrKeyUnavailable) {
			t.Errorf("%s: %v, want ErrKeyUnavailable", name, err)
		}
	}
	for name, err := range map[string]error{
		"disable primary": r.Disable(r.Primary()),
		"destroy primary": r.Destroy(r.Primary()),
		"destroy enabled": r.Destroy(spare),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if diff := cmp.Diff(before, r.Keys()); diff != "" {
		t.Errorf("refused changes changed the ring (-before +after):\n%s", diff)
	}
	ok(t, r.Disable(spare))
	if err := r.Promote(spare); !errors.Is(err, keys.ErrKeyUnavailable) {
		t.Errorf("promote a disabled key: %v", err)
	}
}

func TestKeysIsACopy(t *testing.T) {
	r := newRing(t)
	r.Keys()[0].ID = 0
	if r.Keys()[0].ID != r.Primary() {
		t.Error("a caller changed the ring through Keys")
	}
}

func TestParsedRingKeepsChangesInItsText(t *testing.T) {
	r := newRing(t)
	next, err := r.Add()
	ok(t, err)
	ok(t, r.Promote(next))
	text, err := r.Export()
	ok(t, err)
	opens(t, must(t, text), seal(t, r, "x", nil), nil)
}

func TestConcurrentChangesAreAllKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ring.json")
	const rings, adds = 4, 3
	var wg sync.WaitGroup
	for range rings {
		r := openFile(t, path)
		wg.Go(func() {
			for range adds {
				id, err := r.Add()
				if err != nil {
					t.Error(err)
					return
				}
				if err := r.Promote(id); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				sealed, err := r.Seal([]byte("x"), nil)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := r.Open(sealed, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(openFile(t, path).Keys()); n != 1+rings*adds {
		t.Errorf("%d keys, want %d", n, 1+rings*adds)
	}
}

func TestFirstOpenersShareOneRing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "ring.json")
	var rings [8]*keys.Ring
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			r, err := keys.OpenFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			rings[i] = r
		})
	}
	wg.Wait()
	for _, r := range rings[1:] {
		if r == nil || r.Primary() != rings[0].Primary() {
			t.Fatal("two openers made two rings")
		}
	}
}

func TestKeyFileIsForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "ring.json")
	r := openFile(t, path)
	if _, err := r.Add(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{dir: 0o700, path: 0o600, path + ".lock": 0o600} {
		info, err := os.Stat(name)
		ok(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
	entries, err := os.ReadDir(dir)
	ok(t, err)
	if len(entries) != 2 {
		t.Errorf("folder holds %v, want the ring and its lock", entries)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o644, 0o601} {
		ok(t, os.Chmod(path, mode))
		if _, err := keys.OpenFile(path); err == nil || !strings.Contains(err.Error(), "0600") {
			t.Errorf("mode %v: error %v, want a refusal that names 0600", mode, err)
		}
		if err := r.Reload(); !errors.Is(err, keys.ErrKeyUnavailable) {
			t.Errorf("mode %v: Reload: %v", mode, err)
		}
	}
	ok(t, os.Chmod(path, 0o600))
	openFile(t, path)
}

func TestUnusableKeyFilesAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "cut": `{"primaryKeyId":12,"key":[`, "foreign": "hello"} {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, []byte(content), 0o600))
		if _, err := keys.OpenFile(path); err == nil {
			t.Errorf("%s: opened", name)
		}
		got, err := os.ReadFile(path)
		ok(t, err)
		if string(got) != content {
			t.Errorf("%s: the file was overwritten", name)
		}
	}
	if _, err := keys.OpenFile(dir); err == nil {
		t.Error("opened a folder")
	}
	if _, err := keys.OpenFile(""); err == nil {
		t.Error("opened no name")
	}
}

func TestLinkedKeyFileStaysLinked(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	openFile(t, real)
	ok(t, os.Symlink(real, link))
	if _, err := openFile(t, link).Add(); err != nil {
		t.Fatal(err)
	}
	if n := len(openFile(t, real).Keys()); n != 2 {
		t.Errorf("the real file has %d keys, want 2", n)
	}
}
