// Package broken has connectors that each break one promise, in the way in which
// somebody once broke it or easily could. They are what the contract kit is
// tested with: a check that none of them fails could as well be empty.
//
// Each is the honest connector of the sandbox organisation with one thing wrong,
// so that the kit must find it by that thing alone.
package broken
