// Package crash kills processes in the middle of writes and floods the ledger
// with faults, and then counts what the provider holds. It has only tests: each
// starts its own binary again as the process that dies.
//
// The judge is the provider's own ledger, never what we say about ourselves:
// no operation may have made two tickets, no ticket may belong to an operation
// that we call not applied, and every operation must end in a state with a
// reason.
//
//	go test ./contracttests/crash/                              a third of the matrix, a small storm
//	DRAWBRIDGE_CRASH=full go test -v -run Matrix ./contracttests/crash/
//	DRAWBRIDGE_STORM=10000 go test -v -timeout 30m -run Storm ./contracttests/crash/
package crash
