// Package inbox keeps what webhooks delivered until it has had its effect.
//
//	Ingest -> delivery on disk -> decoded -> lanes dirty -> leased -> applied
//
// A delivery is stored before its sender hears of it, once per endpoint and
// delivery id. Decoding it finds the lanes that it concerns; a lane is one
// resource of one connection, and a mark makes it dirty. Applying a lane means
// fetching the resource and storing what it is now: many marks are one apply,
// and no order of deliveries can matter.
//
// # Lanes
//
// A lane counts its marks (dirty) and knows the count that the last finished
// apply began with (applied). It is a counter and not the number of the last
// delivery: of two transactions the one with the smaller number can commit last,
// and its lane would look clean.
//
// Claim gives a lane to one process for a time, with a fence that grows with each
// claim. Complete counts only with the latest fence, in the transaction that
// stores the result, so whoever lost the lease leaves no trace. A lane that was
// marked in the meantime is still dirty then.
//
// Who failed waits 5 seconds, doubled up to an hour, and is parked after ten
// attempts, the ones that ended their process included; the other lanes go on. A
// provider that turns a connection away (Pause) rests the whole connection at no
// charge. Connections take turns, and each has a budget of leases.
//
// # Guarantees
//
//   - Ingest returns a Verdict after the commit is on disk, or an error.
//   - Every decoded delivery is followed by an apply that began after it.
//   - No two leases of a lane are valid at one time; a stale one settles nothing.
//   - A crash delays what it interrupted by at most one lease (30 seconds).
//   - An id is known for 30 days, a body for 72 hours, and that of a quarantined
//     delivery as long as its record. What waits is never removed.
//   - Lists and logs hold ids, digests and codes. Bodies and headers are sealed.
//
// It does not order lanes, does not apply once per delivery, and does not know
// what a provider is.
//
// # Several processes
//
// Workers may run in several processes, on PostgreSQL and on SQLite. SQLite's
// write lock is the only coordination that claims and completions need:
// TestWorkerProcesses (four processes, some killed, some that stall past their
// lease) and package webhooks' TestKill (two receiving processes killed at
// random) find no lost and no overlapping lane there. What several processes on
// SQLite don't bring is throughput, because they take turns to write.
package inbox
