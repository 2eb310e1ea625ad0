// Package tickets is the enterprise ticket connector: one model, three tools and
// one small Driver interface that any ticket system can be put behind.
//
// tickets.search and tickets.get read; tickets.create writes one ticket that a
// person approved. There is no bulk, no delete and no arbitrary HTTP.
//
// The grant decides, not the caller: asked projects are checked against the
// connection before the provider is asked, the provider's query is built from
// the grant, and every item is checked again when it comes back. A ticket
// outside the grant and one that does not exist answer alike.
//
// What a provider says is kept: Status and SeverityAs hold its own words beside
// the normal ones, ids are opaque text, and an absent field, a null and a value
// are three different things ([Optional]). Text from a ticket is data; characters
// that a person can't see but a model would read are taken out and counted.
package tickets
