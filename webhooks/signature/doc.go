// Package signature decides whether bytes came from who holds a secret.
//
// Every scheme is a row of one table (scheme.go) and there is one verifier.
// What it promises:
//
//   - The check is over the bytes that were received, before anything parses them.
//   - Every secret that is valid at the time of receipt is tried, without an early
//     exit, and compared in constant time. There is no way to have none tried: an
//     unusable secret is an error, not a skipped check.
//   - Encodings are strict. Each header that is used may come once.
//   - Only a signed time counts. Past and future have limits of their own.
//
// A signature says who made a body. It says nothing about whether the body is
// fresh (most schemes sign no time), or whether an unsigned delivery id is true:
// Verified.IDSigned tells, and whoever deduplicates by it must know.
package signature
