// Package dev is a page on which the author of a connector tries it: forms made
// from the schemas of its operations, calls in the full runtime, the approval of
// a write with the exact bytes, what became of writes, faults to switch on
// between the connector and its provider, and what came over the wire.
//
// [kit.Run] opens the same house as for its checks and hands it over as a
// [Bench], so package dev lies below the kit and knows no harness. The connector
// is in its author's package and in no binary of ours; that is why drawbridge dev
// builds the author's TestContract and runs it with [Variable] set. The test then
// serves until its standard input ends, so nothing is left when the command goes,
// however it goes.
//
// # Who gets in
//
// The server listens on a loopback address only. It answers to its own address and
// to no other name (DNS rebinding), takes forms from its own pages only, and shows
// nothing before the link that it printed was opened, which works once. Pages load
// their style sheet and nothing else, and run no script. The provider's
// credentials are taken out of everything that is shown.
//
// [kit.Run]: https://pkg.go.dev/github.com/drawbridge-dev/drawbridge/contracttests/kit#Run
package dev
