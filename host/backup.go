package host

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The files of a data folder. A backup has either the first three or the keys, never
// both: who finds one of the two can open nothing.
var (
	backedUp = []string{databaseFile, "providers.json", "profiles.json"}
	keyFiles = []string{keysFile, signingFile}
)

const (
	databaseFile = "drawbridge.db"
	keysFile     = "keys.json"
	signingFile  = "signing.pem"

	backupIndex  = "backup.json" // the first entry of an archive
	backupFormat = 1
	maxIndex     = 1 << 20
)

// A Backup says what is in an archive.
type Backup struct {
	Format    int       `json:"format"`
	CreatedAt time.Time `json:"created_at"`
	// Keys are the ids of the keys that something in it is sealed with. Of a backup
	// of keys: those that it has.
	Keys  []uint32     `json:"keys"`
	Files []BackupFile `json:"files"`
}

// A BackupFile is one file, in the order of the archive.
type BackupFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Backup writes the database as of one moment, and what an administrator set up, as a
// tar archive, beside running calls. What is sealed stays sealed: the keys are not in
// it. It is for SQLite; PostgreSQL has its own tools.
func (h *Host) Backup(ctx context.Context, w io.Writer) (Backup, error) {
	// Before and after, since keys may be turned over meanwhile.
	before, err := h.SealedBy(ctx)
	if err != nil {
		return Backup{}, err
	}
	folder, err := os.MkdirTemp(h.data, ".backup-")
	if err != nil {
		return Backup{}, err
	}
	defer os.RemoveAll(folder)
	if err := h.DB.Snapshot(ctx, filepath.Join(folder, databaseFile)); err != nil {
		return Backup{}, err
	}
	for _, name := range backedUp[1:] {
		if err := copyFile(filepath.Join(folder, name), filepath.Join(h.data, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Backup{}, err
		}
	}
	after, err := h.SealedBy(ctx)
	if err != nil {
		return Backup{}, err
	}
	maps.Copy(after, before)
	return h.archive(ctx, w, folder, backedUp, slices.Collect(maps.Keys(after)))
}

// BackupKeys writes the keys that open a backup. Whoever has both has every token.
func (h *Host) BackupKeys(ctx context.Context, w io.Writer) (Backup, error) {
	if _, err := os.Stat(filepath.Join(h.data, keysFile)); err != nil {
		return Backup{}, fmt.Errorf("the keys are not in the data folder; keep them where they come from: %w", err)
	}
	var ids []uint32
	for _, k := range h.Keys.Keys() {
		ids = append(ids, k.ID)
	}
	return h.archive(ctx, w, h.data, keyFiles, ids)
}

func (h *Host) archive(ctx context.Context, w io.Writer, folder string, names []string, ids []uint32) (Backup, error) {
	now, err := h.DB.Now(ctx)
	if err != nil {
		return Backup{}, err
	}
	slices.Sort(ids)
	b := Backup{Format: backupFormat, CreatedAt: now, Keys: ids}
	for _, name := range names {
		f, err := describe(folder, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return b, err
		}
		b.Files = append(b.Files, f)
	}
	index, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return b, err
	}
	out := tar.NewWriter(w)
	entry := func(name string, size int64, r io.Reader) error {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: now}); err != nil {
			return err
		}
		_, err := io.Copy(out, r)
		return err
	}
	if err := entry(backupIndex, int64(len(index)), bytes.NewReader(index)); err != nil {
		return b, err
	}
	for _, f := range b.Files {
		file, err := os.Open(filepath.Join(folder, f.Name))
		if err != nil {
			return b, err
		}
		err = entry(f.Name, f.Size, file)
		if err := errors.Join(err, file.Close(), ctx.Err()); err != nil {
			return b, err
		}
	}
	return b, out.Close()
}

func describe(folder, name string) (BackupFile, error) {
	file, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		return BackupFile{}, err
	}
	defer file.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, file)
	return BackupFile{Name: name, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

func copyFile(to, from string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, raw, 0o600)
}
