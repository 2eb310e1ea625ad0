package host

import (
	"context"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// Local is Policy and Consent for one person at their own machine: whoever can
// open the data folder may use every tool that is mounted, in one's own name.
// Writes still need their approvals. A service for several people brings its own.
type Local struct{}

// Decide allows every tool.
func (Local) Decide(context.Context, connector.Caller, connector.Action) (connector.Decision, error) {
	return connector.Decision{Allow: true, Version: "local-1"}, nil
}

// Consented is true: the person who runs the command is the host.
func (Local) Consented(context.Context, connector.Caller, connector.Action) (bool, error) {
	return true, nil
}
