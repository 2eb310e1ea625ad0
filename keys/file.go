package keys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// OpenFile opens the ring kept in a file, and makes one with a single fresh key
// when there is none; two processes that do so at once get the same ring. The
// file is refused when group or others can read it. Its folder is created for
// the owner only. Beside it lies a lock file, name.lock, without content.
func OpenFile(path string) (*Ring, error) { return open(path, nil) }

func open(path string, kms KMS) (*Ring, error) {
	if path == "" {
		return nil, errors.New("keys: no key file named")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	// Replacing works beside the file itself, not beside a link to it.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	r := &Ring{path: path, kms: kms}
	set, err := readFile(path, kms)
	if errors.Is(err, fs.ErrNotExist) {
		set, err = createFile(path, kms)
	}
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	r.current.Store(set)
	return r, nil
}

func createFile(path string, kms KMS) (*keySet, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("lock the key file: %w", err)
	}
	defer unlock()
	// Another process may have been first. Its ring counts: data may already
	// be sealed with it.
	set, err := readFile(path, kms)
	if !errors.Is(err, fs.ErrNotExist) {
		return set, err
	}
	if set, err = generate(); err != nil {
		return nil, err
	}
	if err := set.save(path, kms); err != nil {
		return nil, err
	}
	return readFile(path, kms)
}

// readPrivate reads a file that only its owner may read. what names it in errors.
func readPrivate(path, what string) ([]byte, os.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	// Asked of the open file, so that it can't be another one than is read.
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s %s is not a regular file", what, path)
	}
	// Windows has no such bits; there the folder's access list protects it.
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, nil, fmt.Errorf("%s %s has mode %#o: group or others have access, use 0600", what, path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, 2*maxText+1))
	return text, info, err
}

func readFile(path string, kms KMS) (*keySet, error) {
	text, info, err := readPrivate(path, "key file")
	if err != nil {
		return nil, err
	}
	if text, err = unwrap(kms, text); err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	set, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	set.file = info
	return set, nil
}

// save replaces the file in one step: a crash leaves the old ring or the new
// one, on disk, and no reader sees half of it.
func (s *keySet) save(path string, kms KMS) error {
	text, err := s.text()
	if err == nil {
		text, err = wrap(kms, text)
	}
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // folders can't be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
