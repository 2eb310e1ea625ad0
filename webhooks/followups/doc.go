// Package followups makes a read for a change: a host says once which read, and
// what to do with its answer.
//
//	mirror's transaction -> Schedule -> a lane is dirty -> leased -> Apply:
//	  the connection as it is now -> the runtime's whole pipeline -> Done and the
//	  end of the lease in one transaction
//
// # Guarantees
//
//   - What an event leads to is named by the host, before any event: one operation,
//     its fixed arguments, and the one argument that takes the object's id. Nothing
//     else of an event or an object gets into a call.
//   - The operation reads. New refuses another, Apply looks again, and the runtime
//     that calls are made on (see Reads) has no write to be reached.
//   - A call has the rights that the connection's own principal has at that moment:
//     policy, consent, scopes, grant, audit.
//   - A change and its mark are one transaction, and so are Done and the end of the
//     lease: after a crash the read is made again and its answer stored once.
//   - A follow-up that fails waits longer each time and is parked after ten attempts;
//     other lanes go on. One that the provider sends away rests the connection.
//
// Changes that come close together are one read, after the last of them.
package followups
