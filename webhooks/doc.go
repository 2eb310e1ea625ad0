// Package webhooks receives what providers post, keeps it, and has it applied
// once, whatever is lost, repeated or reordered on the way.
//
// One delivery passes through:
//
//	method -> endpoint (by the token in the address) -> sender -> size -> one of each header
//	-> whole body, within a time -> signature and time -> stored -> 202
//	                                                          |
//	       later: decoded, held to its connection -> lanes dirty -> applied
//
// What is stored is a hint. The decoder finds out which resources a delivery
// concerns, and applying one of them means fetching it with the connection's own
// rights. So a delivery that was replayed, forged by somebody with the secret, or
// overtaken by a later one can cause a fetch too many and nothing else; no event
// starts a write or reaches a model.
//
// # What a sender is told
//
//	202  stored; also when the id was used before with another body
//	200  this delivery was stored before
//	400  ambiguous, missing or malformed headers; a body that broke off
//	401  signature or time, without saying which
//	404  no such address; a disabled one answers the same, and one whose provider
//	     posts from other addresses (Config.Senders, off unless it is set)
//	405, 408, 413, 415
//	503  with Retry-After: our fault, or more than we can take right now
//
// There are no bodies but one: an endpoint that waits for its secret gives back
// the token of a handshake, if its provider has one (AddRequest.Handshake).
// Reasons are in Stats, by name.
//
// # Guarantees
//
//   - 2xx means that the delivery is on disk, or was.
//   - Each stored delivery is applied at least once, and its effect on what Apply
//     stores happens once: see package inbox for leases and fencing.
//   - An address belongs to one connection. Neither another tenant's secret nor
//     anything in a payload makes an event of another connection.
//   - A flood is shed by bytes in flight and by backlog; what was accepted stays.
//
// # What it leaves to others
//
// Where the handler is mounted (below PathPrefix, behind TLS), header limits and
// idle times of the http.Server.
//
// There is no scheme that takes a secret in the body for a signature, as
// Microsoft Graph's clientState: no provider here needs one. A notification whose
// clientState is null, or anything else, is refused as unsigned.
package webhooks
