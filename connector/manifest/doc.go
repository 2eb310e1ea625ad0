// Package manifest writes down what a connector is, for people and programs that
// decide about it without running it, and reads it back strictly.
//
// [Of] projects a [connector.Connector] to a [Manifest]: who it is, how it is
// connected, what each capability may do and which fields can leave. It is made
// from the connector's code, so it can't promise less or more than the code.
//
// [Parse] is the only way in; json.Unmarshal into a Manifest goes through it. An
// unknown key, a key in another case, a key given twice, a missing or unknown
// risk class, a capability named twice, a wrong type and anything behind the
// document are faults, all reported at once, each with its line and column.
// Nothing has a default: a capability that doesn't say how bad it can get does
// not load.
//
// A manifest has no place for a credential, a connection or an approval that
// was given, and because unknown keys are faults, nobody can add one.
package manifest
