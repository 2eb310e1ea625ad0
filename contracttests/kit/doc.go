// Package kit tests a connector: the real
// runtime, transport, credentials, cursors and ledger around it, a real provider
// behind it, and faults on the wire between the two.
//
// An author's whole test:
//
//	func TestContract(t *testing.T) {
//		kit.Run(t, kit.Subject{
//			Connector: hello.New(),
//			Harness:   helloHarness{}, // or kit.SandboxOrg()
//			Read: kit.Use{Tool: "hello.get", Arguments: func(id, _ string) any {
//				return map[string]string{"id": id}
//			}},
//			Write: kit.Use{Tool: "hello.create", Arguments: func(marker, _ string) any {
//				return map[string]string{"text": marker}
//			}},
//		})
//	}
//
// A [Harness] starts the provider, seeds it, connects people to it, and counts
// what is really there. Everything else is the kit's: it stands between the
// connector and the provider as a proxy, so that lost answers, wrong answers and
// redirects need nothing of the harness.
//
// # Results
//
// Each check has an id, the id of the guarantee it belongs to, and a sentence,
// which is what a failure says first. A check passes, fails, is not claimed (it
// does not apply to this connector or provider, with the reason) or is blocked
// (what it rests on failed in another check). Not claimed and blocked are never
// counted as passed.
//
// What happened is judged by the provider's own books and by what came over the
// wire, never by what the connector says about itself.
//
// # Fixed inputs and outputs
//
// Subject.Fixed are calls with answers of the provider that are written down. What
// the connector asks for and what callers get is kept in one file for each below
// testdata/contract; [UpdateVariable] writes them. No provider runs for it.
//
// # Reports
//
// With DRAWBRIDGE_CONTRACT_REPORT set to a folder, a run writes
// contract-report.json and contract-report.md into a folder below it, named
// after connector and provider; otherwise it logs a line.
//
// Package contracttests/broken has connectors that each break one promise, and
// shows that the kit finds each by exactly that promise.
package kit
