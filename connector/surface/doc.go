// Package surface keeps what a connector promised, so that a change of it is
// seen before anyone meets it.
//
// [Of] takes a connector's surface: its manifest and, for each tool, the text
// that models read and the schemas of input and output. [Write] puts it into a
// lock file, connector.lock.json, which stands beside the code and is reviewed
// with it. [Read] takes it back strictly. [Diff] says what a change means for
// those who use the connector, line by line, and [Check] whether the version
// says so, too.
//
// # What a line means
//
// Breaking: something that worked stops. Needs new consent: the connector may
// do or see more than people agreed to; connections that were granted before
// must not get it by themselves. Compatible: neither.
//
// An input that took a document has to go on taking it. An output has to stay
// within what was promised, with one exception: a new property is compatible.
// Go callers decode by name and pass over what they don't know, models read
// what is there, and MCP clients check a result against the schema they were
// listed by the same server. A new enum value or a higher bound is breaking for
// an output, because readers switch on the one and make room for the other.
//
// A keyword whose effect can't be compared (a changed pattern, a condition) is
// breaking: a wrong "compatible" costs more than a needless version.
//
// # What Diff can't see
//
// The code behind an unchanged surface. A handler that answers something else
// than it did has no line here.
package surface
