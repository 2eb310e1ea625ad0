// Package edge is the HTTP door in front of an MCP server: an OAuth 2.0 resource
// server (RFC 6750, RFC 9728) with the guards that the SDK has not.
//
// A request passes, in this order:
//
//	body cap -> host list -> origin -> one message, with a version header
//	  -> bearer token -> token taken out of the request -> rates -> scopes
//
// and reaches what stands behind with an Identity and without its token: no inbound
// token can be passed on, because nobody behind the door has one.
//
// What is refused says why to its sender in the protocol's words and nothing more:
// never what a verifier found out about a token.
package edge
