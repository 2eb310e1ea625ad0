// Package subscriptions has providers post events to endpoints of ours, and
// notices when they have stopped.
//
// A subscription begins with an address that nobody else knows. The request that
// tells it to the provider is a write like any other: a person approves it, it is
// sent once, and a lost answer is settled by looking for the address in the
// provider's list. Where the provider makes the signing key, the endpoint has none
// until the answer brings it. A subscription that was found without its key is of
// no use, and is replaced when a person says so.
//
// From then on the keeper ([Service.Tick]) looks at each subscription every quarter
// of an hour: is it in the provider's list, when does it end, when did the last
// event come, and which deliveries did the provider give up? Those are taken into
// the inbox as what was read by us and signed by nobody.
//
// # What the keeper may do
//
// Read. It makes no subscription anew: that would choose again where events go, and
// an address that vanished may have been removed for a reason. It says so instead
// ([Service.Troubles]), and what events announce is found by polls and sweeps in
// the meantime. A renewal changes nothing but the end, yet it is a write, and there
// are no standing approvals here: the keeper proposes it when half of the life is
// over, so that a person has the other half to approve it, and sends it then.
//
// # Guarantees
//
//   - One subscription per endpoint, however often the command is repeated and
//     whenever it is cut off.
//   - Neither an address nor a key is in a list, a log or an error. Until they are
//     at the provider they are sealed; then only the address's hash is kept here.
//   - Several processes may have a keeper on one database: each look has a lease and
//     a fence, and a look that was overtaken changes nothing.
package subscriptions
