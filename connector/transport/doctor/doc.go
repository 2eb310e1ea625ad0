// Package doctor walks the way to the hosts of an endpoint profile and says at
// which step it breaks, why, and what to do next.
//
// [Check] looks names up, judges every address, connects, speaks TLS and asks
// the base path once, each by the transport's own code, so that what it finds is
// what a call would find. It sends no credential and no query, and shows no
// header but what it concludes from Date, and no body.
package doctor
