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
	"os"
	"path/filepath"
	"slices"
)

// Restored says what came of a restore.
type Restored struct {
	Backup Backup `json:"backup"`
	// Unknown counts the writes that had not been sent when the backup was made and
	// may have been since. Nothing sends them; they are looked up.
	Unknown int `json:"unknown_operations"`
}

// Restore fills an empty data folder from a backup and the backup of its keys.
// Everything is checked before anything is put in its place, the database last.
//
// What happened after the backup is not in it. Writes that may have been sent since
// are looked up and never sent, connections are swept. A refresh token that was used
// since is refused by the provider, so such a connection has to be made again; a
// write that was proposed and sent since is not known at all.
func Restore(ctx context.Context, data string, backup, keys io.Reader) (Restored, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return Restored{}, err
	}
	for _, name := range slices.Concat(backedUp, keyFiles) {
		if _, err := os.Lstat(filepath.Join(data, name)); err == nil {
			return Restored{}, fmt.Errorf("%s has a %s already: restore into an empty folder", data, name)
		}
	}
	folder, err := os.MkdirTemp(data, ".restore-")
	if err != nil {
		return Restored{}, err
	}
	defer os.RemoveAll(folder)
	k, err := unpack(folder, keys, keyFiles)
	if err != nil {
		return Restored{}, fmt.Errorf("the backup of the keys: %w", err)
	}
	b, err := unpack(folder, backup, backedUp)
	if err != nil {
		return Restored{}, fmt.Errorf("the backup: %w", err)
	}
	for _, id := range b.Keys {
		if !slices.Contains(k.Keys, id) {
			return Restored{}, fmt.Errorf("the backup is sealed with key %d, which is not among these keys", id)
		}
	}
	r := Restored{Backup: b}
	if r.Unknown, err = RestoredDatabase(ctx, Config{Data: folder, Policy: Local{}, Consent: Local{}}); err != nil {
		return Restored{}, err
	}
	for _, f := range slices.Concat(k.Files, b.Files[1:], b.Files[:1]) {
		if err := os.Rename(filepath.Join(folder, f.Name), filepath.Join(data, f.Name)); err != nil {
			return Restored{}, err
		}
	}
	return r, nil
}

// RestoredDatabase is for a database that other tools have restored: it marks what
// may have happened since the copy was made, and returns how many writes that are.
// Run it before anything else uses the database.
func RestoredDatabase(ctx context.Context, c Config) (unknown int, err error) {
	h, err := Open(ctx, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if unknown, err = h.Ledger.Restored(ctx); err != nil {
		return unknown, err
	}
	return unknown, h.Mirror.Restored(ctx)
}

// unpack writes the files of an archive into a folder and holds them to its index.
// Names are compared with the only ones there are: no entry can be put elsewhere.
func unpack(folder string, r io.Reader, names []string) (Backup, error) {
	in := tar.NewReader(r)
	var b Backup
	head, err := in.Next()
	if err != nil || head.Name != backupIndex || head.Size > maxIndex {
		return b, errors.New("this is no archive of drawbridge backup")
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		return b, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil || b.Format != backupFormat {
		return b, errors.New("its index is of another format")
	}
	if len(b.Files) == 0 || b.Files[0].Name != names[0] {
		return b, fmt.Errorf("there is no %s in it", names[0])
	}
	for _, want := range b.Files {
		head, err := in.Next()
		if err != nil {
			return b, fmt.Errorf("it breaks off before %s", want.Name)
		}
		if head.Name != want.Name || !slices.Contains(names, want.Name) {
			return b, errors.New("it has a file that does not belong there")
		}
		if err := unpackFile(filepath.Join(folder, want.Name), in, want); err != nil {
			return b, err
		}
	}
	return b, nil
}

func unpackFile(path string, r io.Reader, want BackupFile) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), r)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if n != want.Size || hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%s is not what was backed up", want.Name)
	}
	return nil
}
