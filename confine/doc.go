// Package confine takes away from this process what it does not need: files outside
// of a list, outgoing TCP ports outside of a list, listening, and starting programs.
//
// It is the wall behind the others. Whoever makes the process run something else, by
// a fault of it or of a dependency, still can't read a key outside, reach a service
// on another port, or start a shell. The kernel enforces it (Landlock, Linux 5.13 and
// later; ports from 6.7 on) and nothing in the process can undo it.
//
// # What it does not do
//
// UDP, multipath TCP and sockets that were open before are not held back, nor is a
// host that answers on an allowed port: which address may be dialled is decided by
// the transport. What was opened before stays open.
package confine
