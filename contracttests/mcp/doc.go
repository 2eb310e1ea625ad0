// Package mcp holds mcpexpose against what others have written for the protocol: the
// official conformance suite, the official TypeScript clients and the inspector. All
// goes through the real edge, the resolver of tool sets, the sealer of request states
// and the check of capabilities; only the features that the suite asks for by name
// are fixtures.
//
// It needs Node and packages from npm, which .ci/conformance installs:
//
//	make conformance
package mcp
