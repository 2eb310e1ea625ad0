// Package mirror keeps what connections may read at their providers, as far as
// it was fetched, and knows how old and how complete that is.
//
//	webhook -> inbox lane -> Apply: fetch -> one transaction: row, lane, hooks
//	clock   -> inbox lane -> Apply: list  -> lanes of what changed or vanished
//
// What is stored comes from a fetch with the connection's own rights, never from
// an event or a list: those only say what to fetch. So no order, repetition or
// loss of events can leave the mirror wrong for longer than until the next sweep.
//
// # Applying an object
//
// Who takes access away is served first: a lane that may remove something
// withholds the row, in a transaction of its own, before anything is fetched.
// Then the fetch, outside of any transaction; then, in one transaction, the row
// (or its tombstone), the lane's completion and the OnChange hooks.
//
// A version never goes back. What contradicts the mirror without a higher
// version (an object that is not found, or one that is back under its old
// version) may be a replica that lags behind, so it is believed when a second
// fetch, seconds later, says the same; until then the row is withheld. An object
// that the provider itself calls deleted comes back under a higher version only.
//
// # Reconciling
//
// A poll lists what changed since a checkpoint; a sweep lists everything. Both
// make lanes dirty where the listed version is not the stored one. Only a sweep
// that came to its end, under one authorization, says something about what it did
// not list: that those have to be fetched. Nothing is removed because a list
// lacks it. When more than a fifth vanished at once the sweep stops and says so,
// until a person confirms or the next one finds otherwise.
//
// Each page is one transaction with the position behind it, so a crash repeats
// at most one page. The checkpoint is the provider's clock at the first page,
// less an overlap, and moves only when the walk came to its end.
//
// # Reading
//
// Get serves a row to the connection that it was fetched for, under the
// authorization that it was last confirmed under, when it is no older than the
// caller can bear. Everything else is a miss, and the caller asks the provider.
package mirror
