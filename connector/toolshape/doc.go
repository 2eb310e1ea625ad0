// Package toolshape translates between this module's tools and the JSON of the
// two vendors whose tool calling most agents speak: OpenAI (Chat Completions and
// Responses) and Anthropic (Messages).
//
// A host puts [Shape.Tools] into the request, gives the model's answer to
// [Shape.Calls], runs each call, and sends [Shape.Results] back. All three are
// pure: no network, no vendor SDK, nothing remembered between them. Which vendor
// it was can't be told from a [connector.Call], so the core has no branch for it.
//
// # Names
//
// Vendors allow letters, digits, "_" and "-" in a name, up to 64. Ours have dots
// and never a hyphen, so the two are swapped on the way out and swapped back on
// the way in. That is one to one: a model that makes up "tickets.search" instead
// of "tickets-search" gets UNKNOWN_TOOL, not a tool of almost that name.
//
// # What a model may say
//
// The name, the arguments and the vendor's call id are read, and nothing else.
// [connector.Call.Intent] and [connector.Call.Step] stay empty whatever the
// message holds; they are the host's to set.
//
// Arguments that are malformed, empty, cut off or not an object become a call
// all the same, with arguments that no tool's schema accepts, so that the model
// is told what is wrong under the id that it waits for. They are passed on as a
// JSON string with the text in it, never repaired.
package toolshape
