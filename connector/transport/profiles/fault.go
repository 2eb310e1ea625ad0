package profiles

import "github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"

// A Fault is one thing wrong with a profile file, and where. The errors of
// [Parse] and [Load] hold one or more, in the order of the text.
type Fault = strictjson.PlacedFault
