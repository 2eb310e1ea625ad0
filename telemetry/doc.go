// Package telemetry turns what the runtime and the transport do into
// OpenTelemetry spans and metrics.
//
// A call is one span, execute_tool with the tool's name, and under it one client
// span for each request on the wire, also for those that net/http repeated by
// itself. Metrics count and time the same. docs/telemetry.md lists every name.
//
// Nothing in an attribute comes from a model, a provider's answer or a person:
// there is no path, query, header, body, argument, result, id of a caller or of
// a connection. What is there are names that an administrator or a programmer
// chose, codes of closed lists, numbers, and ids of operations. Trace context is
// not sent to providers: which calls belong together is not theirs to know.
//
// The package uses the API of OpenTelemetry alone. The host brings providers
// with the exporters it likes; global providers are never used.
package telemetry
