// Package contracttests holds any connector to the promises of this module.
//
// A connector's author writes one test:
//
//	func TestContract(t *testing.T) {
//		contracttests.Run(t, contracttests.Subject{
//			Connector: notes.New(),
//			Harness: contracttests.Mock{
//				Handler: provider, Keys: []string{"key-of-ann", "key-of-ben"},
//				Made: provider.made, // ids of what the provider holds, by a text in it
//			},
//			Create: contracttests.Create{Tool: "notes.create", Arguments: func(_ connector.Connection, mark string) any {
//				return notes.Draft{Text: mark}
//			}},
//			Get: contracttests.Get{Tool: "notes.get", Arguments: func(id string) any { return notes.ByID{ID: id} }},
//		})
//	}
//
// A ticket driver needs no more than its harness, because its tools are known:
//
//	contracttests.Run(t, contracttests.Tickets(tickets.New(sandboxorg.Driver{}), contracttests.SandboxOrg()))
//
// # What happens
//
// Run puts the connector into a whole installation of its own: vault, ledger,
// approvals, sealed cursors, guarded transport, and between the transport and
// the provider a proxy that loses answers, cuts, delays and repeats. Three
// stages follow. Fixed: the definition, and with Subject.Fixed and Golden what
// the connector asks and answers for given bytes. Organisation: one check for
// each promise, with faults from outside in an order and at places that follow
// from Subject.Seed. Chain: the three stories of requirement TST5 through each
// [Exposure], which must come to the same.
//
// What happened is read from the provider: its own books ([Org].Made) and the
// requests that passed the proxy. The connector's word proves nothing.
//
// # What is not tested
//
// A check whose tool, lever or answer is missing from the subject is "not
// claimed", with the reason; so is one that Subject.Skip names. A check that
// rests on one that failed is "not measured". Neither passes. The report says
// also which promises belong to the house and are proven by its own tests.
//
// # The report
//
// contract-report.json and contract-report.md go into the folder named by
// DRAWBRIDGE_CONTRACT_REPORT (in it, one folder for each connector and system);
// without it Run logs the summary only. Evidence is "unit" for a [Mock], always;
// "sandbox" for [SandboxOrg]; "real system" for a system that nobody wrote for
// the test. The checks are listed by [Checks].
package contracttests
