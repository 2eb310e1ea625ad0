// Package mcpexpose serves connector runtimes behind the Model Context Protocol,
// over stdio and Streamable HTTP, in both of its eras: 2026-07-28, which is
// stateless, and the older handshake.
//
// It knows no connector and no vault. A tool is an operation of a mounted Runtime;
// the Runtime decides everything about a call, so a tool behaves as it does in
// process. What this package adds:
//
//   - Servers of the SDK are made for sets of tools and shared by everybody who may
//     see that set. They hold no identity; the caller of each request comes from the
//     edge that verified it (package edge), never from a session.
//   - Hidden and unknown tools answer alike, and every call is authorized again.
//   - Structured content is one envelope for success and error, which the listed
//     output schema describes. The text beside it has nothing in it that a terminal
//     or a model obeys without being seen.
//   - A missing connection or approval becomes a link for the person at the client
//     (URL-mode elicitation). The link is never text for the model. What comes back
//     proves nothing: the call is simply run again.
//   - Request state is sealed, bound to the caller, the tool and its arguments, short
//     of life and redeemed once.
//   - A panic, a missing result or a stray error of a handler is a clean error to the
//     client, and the process lives. The SDK does none of that by itself.
//
// # The older era
//
// Its sessions live in the memory of one process and are bound to the caller that
// began them; whoever runs several processes routes a session to its own. The
// newer era needs nothing of the kind.
package mcpexpose
