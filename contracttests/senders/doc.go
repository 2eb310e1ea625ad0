// Package senders holds webhooks/signature against the libraries that senders
// sign with: what those sign is accepted, over a real socket and to the byte, and
// what was changed after that is refused for the right reason.
//
// It needs Node and two packages from npm, and runs with CI_REQUIRE_NODE=1.
package senders
