// Package connector is the core: what a connector is, what a call is, and the
// one pipeline that every call goes through.
//
// A connector is a value. Its author writes pure functions from input to
// request and from response to output; everything that has an effect, holds a
// secret or crosses a trust boundary belongs to the framework. The author meets
// [Connector], [Spec], [Read], [List], [Write], [Access] and [Lint]; the host
// meets [New], [Runtime.Tools], [Runtime.Execute], [Call] and [Result]; the
// services of this module implement the interfaces in services.go.
//
// # One call's journey
//
//	duplicate call id -> exact name -> closed schema (all faults at once)
//	-> policy (server) and consent (host): both, or nothing
//	-> connection: live status, scopes, resources, authorization version
//	-> read:  cursor opened -> handler -> guarded transport
//	   write: Plan -> digest -> approval -> ledger row -> stored bytes sent once
//	-> output schema -> size -> is the connection still current?
//	-> receipt (writes) -> audit record -> Result
//
// A refusal happens before any later stage has seen the call.
//
// # The states of a write
//
//	awaiting_approval -> approved -> dispatching -> applied | rejected | not_sent | unknown
//	unknown -> applied | rejected | unresolved (a person decides)
//
// dispatching is durable before the first byte leaves. A write whose answer was
// lost is unknown: it is looked up with the connector's Find, never sent again.
// Absence is believed only when the look-up was complete and later than the
// settle time that the connector declares.
//
// The digest of a write names connector, operation, version, tenant, principal,
// connection, account, method, host profile, path, query, content type, body and
// resource version. Proposals are the same write when tenant, principal,
// connection, tool and intent are; a call without an intent uses the digest of
// its arguments in canonical form (RFC 8785), so that one payload proposed
// twice is one operation. The operation id is part of the planned bytes (as key
// or marker), which is why the intent can't be made of them.
//
// # Errors
//
// [Error] has three axes: Code (what went wrong), Effect (what happened to the
// provider) and Next (what would help). A [Result] shows Code, Next and a safe
// message; the cause goes to the operator's log under a correlation id, and ids
// and digests to the auditor. There is no text of a provider, URL, header or
// token in a result's error.
//
// # Words
//
//   - Definition: what a model is shown. Call: a proposal. Result: the answer.
//     Receipt: evidence of a write, which only this package can make.
//   - Connection: an account that a principal connected. Resources: the
//     containers it may touch. Authorization version: grows with every change.
//   - Operation: one tool of a connector; also one write in the ledger, which
//     has an [OperationID].
package connector
