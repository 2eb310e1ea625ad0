// Package sandbox is an enterprise ticket system in memory: a real HTTP server
// with OAuth, access lists, paging, idempotency keys and signed webhooks, which
// misbehaves on command and remembers what really happened.
//
// It is the oracle of the write tests. What a connector reports is compared with
// [Server.Ledger] and [Server.Count], never with what the connector itself stored.
//
// One request passes through: capture (method, path, digests) -> behaviour rules
// that match it -> bearer and scope -> the handler, which commits to memory ->
// the rules again, which may lose, delay or damage the answer -> the socket.
//
// It guarantees that a write is in the ledger before its answer leaves, that a
// hidden ticket and an absent one answer alike, and that an idempotency key
// creates at most one ticket unless a switch says otherwise. It guarantees
// nothing about secrecy: it hands out test secrets, and [Server.Canaries] lists
// them so that a test can show they went nowhere else.
//
// It imports nothing but the standard library, so that no mistake of the code
// under test can be repeated here.
package sandbox
