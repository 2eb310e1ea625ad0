//go:build !cgo

package transport

const builtWithCgo = false
