// Package credentials connects accounts at providers and keeps their tokens:
// callers hold a reference that can't be used to call anything, and only the
// guarded transport gets what goes on the wire.
//
// # One sign-in
//
// [Service.Begin] fixes everything the answer will be compared with, stores a
// hash of the state and the sealed PKCE verifier, and returns a URL.
// [Service.Finish] is the callback: parameters once each, state by hash, browser
// and principal equal to the initiator's, issuer (RFC 9207), then one
// compare-and-swap that uses the sign-in up, one exchange at the token endpoint
// that was fixed at the start, the account read with the fresh token, and one
// transaction that stores it all.
//
// A terminal has no browser to come back: [Service.BeginDevice] shows a code and
// [Service.PollDevice] asks whether the person has decided (RFC 8628), at the
// server's pace and from one process at a time; what it then gets goes the same
// way as a callback's. An incremental authorization that was not granted is
// asked for twice an hour, not more.
//
// A provider's endpoints are pinned, or discovered from its issuer (RFC 8414,
// compared byte for byte, S256 required). [Service.Setup] makes the connections
// for which nobody signs in: client credentials, static keys, app installations.
//
// # One request
//
// [Service.Authorize] is asked before each request. It reads status, account
// and version from the database every time, so a disconnect in one process
// stops the next request of every other one.
//
// # One renewal
//
//	read -> claim (durable; a fencing number, a lease) -> is there still time?
//	-> one POST -> classify -> commit where version and fencing number are unchanged
//
// In one process callers share one flight, which no caller's end ends. Between
// processes the claim decides. The lease is longer than the HTTP timeout, and a
// holder that was paused does not send any more. A holder that died leaves its
// claim; after the lease, and as long again for a late commit, the next one
// sends the same refresh token once more, provided that its database has
// answered without a gap for the guard time: an outage outlives leases, and a
// living holder must be first when it is over. If the provider refuses the
// token, the new one was lost between its answer and our disk, and the
// connection must be made again (lost_rotation). A pair that can't be stored
// because the database is away is kept in memory and stored later; it is not
// used before.
//
// What a token endpoint's answer does to a connection:
//
//	not_sent, outcome_unknown, throttled  stays; tried again with backoff, Retry-After honoured
//	rejected (invalid_grant, an alias)    reconnect_required: invalid_grant or lost_rotation
//	app_misconfigured                     degraded; tried every half hour, nobody is asked
//	invalid_request                       three more tries, then degraded
//	any other refusal                     five more tries, then reconnect_required(unclassified)
//
// An answer of status 500 and above never ends a connection, whatever it says.
// In all but the second row an access token that still lives is still used.
//
// When three connections of one client fail in a row because the server does not
// answer or does not know us any more, the rest is not sent there: renewals of
// that issuer and client fail at once until a probe, or a sign-in, succeeds.
// This never changes a connection.
//
// # The end
//
// [Service.Disconnect] stops all use in its first transaction and moves the
// tokens to a sealed outbox, refresh token first; [Service.PumpRevocations]
// sends what is due (RFC 7009). Each step is reported by itself, and "revoked
// at the provider" is never claimed without the provider's 200.
//
// [Service.Prune] lets go of what is over: the secrets of expired sign-ins at
// once, records after Config.Keep, and the tokens of connections that nobody made
// again for as long.
//
// # Errors
//
// CONNECTION_REQUIRED: absent, another tenant's or principal's (these answer
// alike), to be made again, or changed since it was resolved. SCOPE_REQUIRED
// with what is missing. UNAVAILABLE with a time to wait: provider, database or
// key ring. See Finish for those of a sign-in. No error, log line, audit row or
// clear column holds a token, a code, a verifier, a state or a provider's text.
//
// # Tenants
//
// Every statement names its tenant. On PostgreSQL the tables also have forced
// row-level security by store.Scope, so that one which forgot would find nothing;
// run as a role that is neither superuser nor has BYPASSRLS. Whoever looks at the
// tables by hand first says: SET drawbridge.scope = '*'.
//
// # Decisions
//
// A pair that comes too late because another claim or sign-in was first is
// dropped, not revoked: servers may take the revocation of one token as that of
// the whole grant, and the pair that won would die. It is revoked when the
// connection is gone.
//
// The token endpoint client is our own. x/oauth2 builds the authorization URL
// and the PKCE pair; its exchange follows redirects with secrets, sends twice
// when it guesses the authentication method, and gives up a rotated pair over
// an odd expires_in.
//
// Restoring an old backup brings back spent refresh tokens: expect those
// connections to need a new sign-in.
//
// # Turning keys over
//
// Add and Promote a key (package keys), then [Service.Reseal] until
// [Service.SealedBy] shows nothing under the old one; then Disable it, and
// DestroyUnused it when backups have expired. Nothing stops meanwhile.
//
// # What it leaves to others
//
// Pages, cookies and the prefetch check of the callback (package console), and
// the decision who may connect what (policy).
package credentials
