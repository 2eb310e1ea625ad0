// Package console is the pages on which people connect accounts, read and decide
// approvals, and look up what became of a write.
//
// # One request
//
// Security headers, then the host name against the one of the base URL, the body
// cap, the origin of a request that changes something, the session, the session's
// CSRF token, and only then the page. Routes stand in one table (routes.go), so
// none can leave a step out; the tests walk the same table.
//
// # Who sees what
//
// A person sees what was done or would be done in their own name. Another
// principal's thing, another tenant's and an absent one get the same answer.
//
// # Signing in
//
// The one person of a local installation opens a link that works once
// (Console.LocalLink); a team signs in with OpenID Connect. Each sign-in makes a new
// session and ends the one that the browser had. The cookie holds a random token and
// the database its hash. The CSRF token, and the secret that ties a browser to a
// sign-in at a provider, are derived from the token, so nothing else is stored.
//
// On http, which only a loopback address may use, the cookie is shared by all
// ports of that host name, as cookies are: whoever runs another server there for
// the same person can read it.
//
// # Connecting
//
// GET /connect says who, which provider, which permissions and why; its button
// begins the sign-in at the provider. A link made for another program's user
// (Console.ConnectLink) carries nothing but a random token and works only for the
// person it was made for: whoever forwards one can't get somebody else's account
// connected to their own name.
//
// Each provider has its own callback path, and the browser's secret is derived from
// the path as well: an answer that arrives on the path of another authorization server
// than the one that was asked is foreign, and no code is exchanged (mix-up,
// RFC 9700 section 4.4), also where a server sends no iss.
//
// Where nobody signs in, the button leads to a form for a key or personal token
// instead. It works once, for ten minutes, in the browser and session that asked for
// it. The key is sealed before anything is answered, is on no page afterwards, and
// comes by no other way: what passes a tool's arguments passes a model.
//
// # Decisions
//
// A browser applies form-action to the whole chain of redirects behind a form, and
// a provider's sign-in can lead anywhere (a company's own identity provider). So the
// button answers with a page that moves on by itself, and form-action stays 'self'.
//
// Pages have no script. Notices come from the state of a thing, never from the
// address, so a link can't make a page say that something happened.
//
// # What it leaves to others
//
// Rules and secrets of connections (credentials), of approvals and operations
// (operations), TLS, and limits on how often somebody may ask.
package console
