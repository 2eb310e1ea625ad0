// Package record keeps what a real provider answered, without what must not be
// kept, and answers with it again.
//
// A [Recorder] is a proxy on this machine in front of one provider. Each exchange
// is scrubbed before anything of it is kept: headers are taken from a short list,
// values of fields that are named like secrets are replaced, and whatever was
// seen as a credential (in an Authorization header, a cookie or such a field) is
// replaced wherever else it stands. [Recorder.Write] looks for canaries in what
// it is about to write, in the encodings that secrets travel in, and writes
// nothing when it finds one.
//
// A [Player] answers requests from a recording. Requests are scrubbed the same
// way before they are compared, so another token does not matter, and neither
// does another operation id, which it puts into the answers.
//
// What a person wrote into a ticket is not a secret to this package: give the
// names of fields that must go, or record against accounts made for it.
package record
