package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/drawbridge-dev/drawbridge/store"
)

// A service embeds its migrations; here they are written in place.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	migrations := fstest.MapFS{"00001_notes.sql": {Data: []byte(`-- +goose Up
CREATE TABLE notes (id TEXT PRIMARY KEY, version BIGINT NOT NULL, body BYTES NOT NULL);
`)}}

	ctx := context.Background()
	db, err := store.Open(ctx, store.Config{
		URL:        "sqlite:" + filepath.Join(dir, "drawbridge.db"),
		Migrations: []store.Migrations{{Service: "notes", FS: migrations}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	insert := func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO notes (id, version, body) VALUES (?, ?, ?)", "n1", 1, []byte("hello"))
		return err
	}
	fmt.Println("insert:", db.Update(ctx, insert))
	fmt.Println("again, unique violation:", store.IsUnique(db.Update(ctx, insert)))

	err = db.Update(ctx, func(tx *store.Tx) error {
		n, err := tx.Exec(ctx, "UPDATE notes SET version = ?2 + 1 WHERE id = ?1 AND version = ?2", "n1", 1)
		fmt.Println("compare-and-swap changed rows:", n)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	var version int64
	if err := db.QueryRow(ctx, "SELECT version FROM notes WHERE id = ?", "n1").Scan(&version); err != nil {
		fmt.Println(err)
	}
	fmt.Println("version:", version)
	// Output:
	// insert: <nil>
	// again, unique violation: true
	// compare-and-swap changed rows: 1
	// version: 2
}
