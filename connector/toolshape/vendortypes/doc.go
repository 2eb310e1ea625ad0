// Package vendortypes holds no code. Its tests pass what connector/toolshape
// writes and reads through the vendors' own Go types, so that the shapes rest on
// more than our reading of the vendors' documents. No test uses a network.
package vendortypes
