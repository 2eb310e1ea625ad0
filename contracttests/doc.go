// Package contracttests stands above everything: here the product is held against
// real parts, and the house against its own rules.
//
// kit is what a connector is tested with; broken has connectors that each break one
// promise, and shows that the kit finds it. sandbox is the ticket organisation, fault a
// proxy that cuts and delays, scenarios the fixed stories, crash the processes that
// die in the middle, gitea, senders, mcp and browser what others have written.
package contracttests
