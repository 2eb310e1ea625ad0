// Package exposures plays the main job through each way in which a program or a
// model reaches the tools, and holds the ways to one another: the same story must
// come to the same, down to the data, whatever stands between.
//
// The stories are those of requirement TST5: a read-only investigation, an
// approved creation, a connection that is cut half way. What happened is read
// from the provider's own books.
package exposures
