// Package notices tells who may see a connection's objects that one of them
// changed: its name and what happened to it, and nothing of its content.
//
//	mirror's transaction -> Record -> a row
//	Watcher.Next -> rows after its position -> authorized now? -> one Notice
//
// The rows are in the database, so a watcher hears of what other processes changed
// too. It reads on from where it is when this process changed something, and each
// PollEvery for the others; while nobody waits in Next nothing runs.
//
// # Guarantees
//
//   - A change and its row are one transaction, in the order of the connection's
//     sequence: whoever has seen a position has missed nothing before it.
//   - Authorization is checked between reading a row and handing it out. Where it
//     fails nothing is handed out, and where it changed the watcher hears Lost and
//     no name from before.
//   - What a watcher holds is bounded, and no watcher delays a change or another
//     watcher: who is behind by more than the rows that are kept hears one Lost.
//
// It does not find changes; package mirror does, for the connections it follows.
package notices
