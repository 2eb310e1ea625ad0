// Package mirror keeps what a provider's objects are now, as one connection sees
// them, whatever its webhooks lose, repeat or reorder.
//
//	delivery -> lane dirty -> Apply: hide if access may be gone -> fetch -> one transaction
//	Reconcile -> ids and versions -> lanes dirty -> the same Apply
//
// Nothing but a fetch with the connection's own rights ever writes an object. An
// event or a list only says which object to fetch, so neither a forged nor a late
// one can put anything here, and nothing is deleted because a list lacks it.
//
// # Guarantees
//
//   - The object, its access list, the tombstone, the connection's sequence and
//     the end of the lane's lease are one transaction.
//   - An object's order never goes back. What is gone comes back only with a
//     greater order; what was hidden from the connection also with the same one,
//     because rights change without the object, once a second fetch agrees.
//   - A mark that says that access may be gone hides the object before the fetch.
//   - Nothing is served while a mark of it, of its container or of the connection
//     waits to be applied.
//   - What was fetched under one authorization version is served under no other.
//   - A tombstone has no text. What was absent when it was first asked for leaves
//     one too.
//   - Nothing is kept of a connection that has ended.
//   - A sweep goes on where it was after a crash. Only one that saw every page
//     under one authorization has the objects that it missed fetched, and stops
//     when they are more than a fifth (and more than 20).
//
// It does not know a model and starts nothing at the provider but reads.
package mirror
