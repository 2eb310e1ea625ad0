// Package senders holds what verifies webhooks against those who send them, in
// code that nobody on this project wrote: the libraries that providers' own
// services and tools sign with, and a real Gitea. Each signs real HTTP requests;
// they have to be accepted as they are, and refused with one thing altered.
//
// It has tests only. They run with CI_REQUIRE_NODE=1 and CI_REQUIRE_GITEA=1; see
// .ci/node and .ci/gitea.
package senders
