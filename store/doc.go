// Package store keeps everything Drawbridge must not forget in one database,
// and acknowledges nothing before it is on disk.
//
// The database is one SQLite file or one PostgreSQL database; a service writes
// its SQL once and runs on either. Open migrates each service's tables, Update
// runs a write transaction that is durable when it returns nil, View gives a
// consistent snapshot, Query and QueryRow read one statement.
//
// # SQL for both engines
//
// Write ? for a parameter (?2 repeats the second one). The types are TEXT,
// BIGINT and BYTES; BYTES becomes BLOB or BYTEA and is replaced only in
// migrations. Times are BIGINT milliseconds since 1970, booleans BIGINT 0 or 1.
// INSERT ... ON CONFLICT, UPDATE ... RETURNING, partial unique indexes and CTEs
// work on both. Double quotes mean identifiers only. Name the columns instead of
// writing SELECT *, which changes under a newer replica. Do not use the operators
// of PostgreSQL that contain a question mark, and no engine's functions;
// ask Tx.Now for the time. TEXT must be valid UTF-8 without NUL, which
// PostgreSQL enforces and SQLite does not; put foreign bytes in BYTES.
//
// A migration named *.postgresql.sql does nothing on SQLite. It is for what only
// that engine has: guards by row, see [Scope].
//
// # Concurrency
//
// SQLite has one writer at a time: Update takes the write lock before its
// function runs, so what the function read can't change under it. PostgreSQL
// runs Update at READ COMMITTED: make decisions with compare-and-swap
// (UPDATE ... WHERE version = ?, then look at the count), which is right on
// both. View is a snapshot on both.
//
// # What it leaves to others
//
// Sealing values (package keys) and the meaning of rows. Nothing here is
// encrypted; a file the store creates is readable by its owner only.
package store
