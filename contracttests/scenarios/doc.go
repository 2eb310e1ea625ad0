// Package scenarios is the main job as four short stories, run for real: a
// sandbox ticket organisation over HTTP, a database in a folder, the product's
// own services in between. drawbridge demo tells them to a person; the tests of
// this package judge them.
//
// What happened is read from the provider's own ledger, never from our answers.
package scenarios
