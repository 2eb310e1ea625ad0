// Package profiles reads the file in which an administrator says which hosts
// there are and how they may be used, and shows what it says.
//
//	{"profiles": [{
//	  "name": "acme-tickets",
//	  "base_url": "https://tickets.acme.example/api",
//	  "auth_origins": ["https://login.acme.example"],
//	  "roots_file": "acme-ca.pem",
//	  "private": [{"host": "tickets.acme.example", "prefix": "10.20.0.0/16", "port": 443}],
//	  "refuses_before_processing": [429],
//	  "limits": {"read": "20s", "concurrency": 2, "rate": 0.5}
//	}]}
//
// Beside profiles, nat64 lists the operator's own translation prefixes (RFC 6052),
// IPv6 /96 each: addresses in them are judged as the IPv4 ones that they mean.
//
// Each key means the field of the same name of [transport.Profile]. The path of
// base_url is the prefix that no request leaves. roots takes the certificates
// themselves instead of a file. Times are texts as in 1m30s. Everything but
// name and base_url may be left out, and then has the transport's default.
//
// Reading is strict, because a key that is misspelt and passed over is a
// restriction that isn't there. Unknown and repeated keys, wrong types, zero or
// senseless limits, wildcards, an address exception that is for another host or
// wider than it must be, plain http to anywhere but this machine, and anything
// behind the document are faults. All are reported at once, each with its line
// and column. What the transport itself refuses is asked of the transport, so
// the two can't disagree.
//
// A proxy's password has no place in the file, which is read and shown by many:
// proxy_credentials_file names a file with one line, user:password.
//
// There is no key for a credential of a connection, and none that weakens TLS.
package profiles
