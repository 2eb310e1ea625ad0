// Package bench measures what the product's promises cost, each against a floor
// that does the same work without them: the two run in turn, in one process
// against one server, and the ratio is what counts. Times alone say little about
// another machine.
//
//	make bench
package bench
