// Package keys seals values so that they open only where they belong, and
// turns its keys over without stopping anything.
//
// A Ring holds AES-256-GCM keys, one of them primary. Seal uses the primary and
// writes its id in front; Open finds the key by that id. Both take a context,
// made by Context from tenant, connection, record and whatever else names the
// place: a sealed value that is copied to another row, tenant or table does
// not open there.
//
// # Turning keys over
//
// Add puts a new key into the ring that nobody seals with yet. Once every
// process can open it (a file ring looks at its file by itself), Promote makes
// it the primary. The owner of each table then opens and seals again what
// KeyID shows to be under the old key, backups expire, Disable takes the old
// key out of use, and DestroyUnused removes it for good once nothing is counted
// under it. A value under a key that this process does not have is
// ErrKeyUnavailable, not damage.
//
// # Where keys come from
//
// A file of the owner (OpenFile), which a KMS may have wrapped (OpenWrapped,
// keys/vault), or a text (Parse) that a caller took from an
// environment secret or had a KMS decrypt. The text is a Tink keyset in JSON, and
// beside each key a known value sealed with it: a key that was damaged is noticed
// when the ring is opened. A plain keyset is accepted too.
//
// # What it does not do
//
// It can't tell that a whole row was put back to an older state together with
// the version in its context. There is no keyed hash: lookup hashes here are
// of random one-time values, for which plain SHA-256 is as good, and a hash
// that other values needed would change with the key and break the lookup.
package keys
