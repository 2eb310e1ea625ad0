// Package host puts the services together over one data folder or database: the
// store, the key ring, credentials, the guarded transport, cursors, the ledger
// and one runtime for each provider that is set up.
//
// An agent runtime opens a Host in its own process, gives it a Policy and a
// Consent, and executes calls through [Host.Runtime]. Several processes may open
// the same database; nothing that another one needs is kept in memory.
//
// Periodic work (settling unknown operations, expiring approvals, revoking
// tokens) is done by [Host.Tick], once a call; whoever runs a long-lived process
// calls [Host.Run].
package host
