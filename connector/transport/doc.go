// Package transport sends HTTP requests to the hosts that an administrator
// named, and nowhere else.
//
// A caller names an endpoint profile and a relative path. One call passes, from
// the outside in:
//
//	deadline -> the connection's slots, queue and rate -> breaker of the profile
//	-> attempt loop -> http.Client that follows nothing -> URL gate and origin pin
//	-> running cooldowns -> credential, on a copy -> condition of a kept answer
//	-> attempt counter -> http.Transport -> dial guard
//
// and the answer comes back through a cap on decoded bytes and a check of its
// media type. What the package promises:
//
//   - No request leaves the profile's origin, whatever a path, a redirect, a
//     name server or the environment says. The address check is on the socket's
//     address, so nothing can change between check and use.
//   - A credential exists only on the copy of a request that is handed to
//     http.Transport, after the origin check, and is fetched anew for each one.
//   - A write is received at most once. It is sent again only when its head was
//     never completed, which http.Transport's trace proves.
//   - Every request that went out, also one that net/http repeats by itself, is
//     a row of [connector.Response.Attempts].
//   - What a provider says about its limits is handed out with every answer, and
//     a wait that it asked for is honoured before the next attempt, by every
//     process that shares the [Cooldowns].
//   - A kept body is used only after the provider confirmed it in the same call,
//     and only for the tenant, connection, principal and authorization version
//     that it was given to.
//   - Texts of errors and log lines hold no path, query, header or body.
//
// # Errors
//
// Every error is a *connector.Error. EGRESS_BLOCKED: the profile, the URL gate,
// the dial guard, a redirect to another origin, or a certificate that does not
// prove the host. OVERLOADED: our own queue or rate. RATE_LIMITED: a
// cooldown runs for longer than a call may wait. UNAVAILABLE: no answer, or
// the breaker is open. DEADLINE and CANCELED: the caller's or our time ran out.
// PROVIDER_CONTRACT and TOO_LARGE: an answer came and can't be used; Status is
// set. OUTCOME_UNKNOWN: a write left and no complete answer came. A complete
// answer of any status is not an error here; the connector classifies it.
//
// # Decisions
//
// Writes and exchanges with authorization servers never use a pooled
// connection. One that the server is about to close turns a write into an
// unknown outcome and can cost a rotated refresh token; a handshake for each
// write is cheap beside the person who approved it. A provider with very many
// small writes would change our mind.
//
// Pooled connections are dropped after five minutes by starting a new pool, so
// that a changed address is noticed under steady traffic.
//
// HTTP/2 is for reads of profiles that ask for it. It repeats by itself and
// makes it unprovable whether a request was written, so no write uses it.
//
// Behind a profile's proxy the guard sees the proxy's address alone. Addresses,
// and names that mean another host on every network, are refused before CONNECT;
// whether a public name leads to a private address is the proxy's to check.
//
// The cache serves nothing unasked. Freshness lifetimes would save a request and
// hand out tickets whose access was withdrawn a moment ago.
//
// The body is read inside an attempt. A cut-off answer is then one failed
// attempt like any other, and nothing partial exists outside.
//
// # Limits
//
// net/http writes bytes that a server sends unasked on an idle connection to
// the standard logger of package log, and there is no setting for it. A process
// that must not log foreign bytes sets that logger's output.
package transport
