// Package docker runs the sandbox ticket organisation in a container of its own.
//
// The image is made FROM scratch of one static binary, so nothing is pulled and
// nothing but the organisation is in it. [Build] compiles the binary, [Start]
// makes the image, starts the container and waits until it serves; [Org.Close]
// removes both. [Process] runs the same binary without a container: what passes
// against one must pass against the other.
//
// Webhooks don't reach out of the container: the organisation delivers to loopback
// addresses only, and those are its own.
package docker
