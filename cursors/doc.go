// Package cursors turns a provider's page position into a text that is useless
// to anyone, and for anything, but the call it was issued for.
//
// A cursor is the position and its expiry, encrypted and authenticated under
// the key ring, with the whole [connector.CursorBinding] as associated data. The
// binding isn't in the text: Open rebuilds it from the call at hand, so a cursor
// presented with another query, page size, connection, principal, tenant, set of
// resources or authorization version doesn't open. A connection's authorization
// version grows whenever its rights change, which ends all its cursors at once.
//
// Nothing is stored. Any replica with the same key ring opens what another one
// sealed, also after a rotation, for as long as the old key stays on the ring.
// What can't be done without state is to use a cursor up: until it expires, its
// own caller may present it again, and gets the same page.
//
// A cursor carries no authority. The call that brings it has passed policy,
// consent and the connection's checks before Open is asked.
//
// Every refusal is the same CURSOR_INVALID, without a message or cause of its
// own: not even an operator's log line, if one leaked, tells a forger how far he
// came. That includes a ring which can't be reached; the ring's owner reports
// that by its own means.
package cursors
