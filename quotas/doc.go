// Package quotas keeps what providers said about waiting in the database, so
// that every replica honours what one of them was told.
//
// [Cooldowns] implements transport.Cooldowns. A cooldown is one row: tenant,
// name (connection and dimension) and an end, which only ever moves later.
// Expired rows are removed by the next Extend of the same tenant, and by Sweep.
//
// # How fresh
//
// Until is asked before every attempt and reads a row at most once a second for
// each key; in between it answers from memory. So a cooldown that another
// process has just met is honoured within a second, and our own at once.
//
// # When the database fails
//
// It fails open. Until answers with what this process knows, waits a quarter of
// a second at most for more, and then does not ask again for a second. A read
// that goes out too early is refused by the provider once more and costs
// little; reads that can't go out because a table of hints is away would be an
// outage of everything. Extend keeps the end in memory whatever happens, so
// that at least this process honours it, and returns the error for the log.
//
// # Time
//
// Ends are kept by the database's clock. Replicas whose clocks differ are
// corrected by a difference that is measured once a minute.
package quotas
