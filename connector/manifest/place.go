package manifest

import "github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"

// A Fault is one thing wrong with a manifest, and where. The errors of [Parse]
// hold one or more of them, in the order of the text.
type Fault = strictjson.PlacedFault
