// Package operations is the ledger of writes: what was proposed, who approved
// it, what was sent and what became of it.
//
// A write passes through like this:
//
//	Propose   the planned bytes, sealed, with a pending approval
//	Approve   by a person, who reads the Card: every byte that will be sent
//	Dispatch  state dispatching, a fence and a lease, durable before the first byte leaves
//	Finish    what the answer proved; or unknown, with a time to look
//	Look      a lease for one look-up of an unknown write, until Finish knows
//	Settle    a person decides what no look-up could
//
// # What it guarantees
//
// One identity (tenant, principal, connection, tool, intent) has at most one
// live operation, whoever races. An approval covers one digest, connector
// version, connection, authorization version and resource version, and is used
// once; only a dispatch of which provably nothing left gives it back, for the
// same bytes under the same operation id. An operation that was dispatching
// when its process died becomes unknown, never rejected. A claim that was
// fenced off by a later one changes nothing. Every change writes its line of
// history in the same transaction.
//
// An operation that ended without effect (rejected, or not sent and not to be
// tried again) frees its identity: the same payload can then be proposed as a
// new operation, which needs a new approval.
//
// # Time
//
// The database's clock decides about expiry and leases. What time alone has
// decided (an approval ran out, a lease lapsed) is written by whoever touches
// the row next, and by Sweep for rows that nobody touches.
//
// # What is sealed
//
// The request with its account, summary and notes, the arguments, the output
// and the receipt are sealed for their tenant, operation and column. Ids,
// digests, states, times, the intent and the reasons are readable in the
// database, so a host must not put personal data into an intent.
//
// # What it leaves to others
//
// Package connector decides what an answer proves and makes receipts; it
// compares the digest with the stored bytes before it sends. Whether a person
// may approve, settle or list is the host's question: the methods for people
// take the tenant and a name for the history, and no authority.
package operations
