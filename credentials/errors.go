package credentials

import (
	"context"
	"errors"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/keys"
)

// notConnected is the one answer for a connection that is absent, of another
// tenant or principal, or disconnected: the three can't be told apart.
func notConnected() error {
	return connector.Fail(connector.CodeConnectionRequired, "no such connection")
}

func reconnect(reason Reason) error {
	return connector.Fail(connector.CodeConnectionRequired, "the connection must be made again (%s)", reason)
}

func changed() error {
	return connector.Fail(connector.CodeConnectionRequired, "the connection's authorization has changed; start the call again")
}

func unavailable(retry time.Duration, why string) error {
	e := connector.Fail(connector.CodeUnavailable, "%s", why)
	e.RetryAfter = max(retry, 0)
	return e
}

// storage maps an error of the database or the key ring.
func storage(err error) error {
	var own *connector.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return connector.AsError(err)
	case errors.Is(err, keys.ErrKeyUnavailable):
		return &connector.Error{Code: connector.CodeUnavailable, Message: "the key for this connection is not available", Err: err}
	}
	return &connector.Error{Code: connector.CodeUnavailable, Message: "the connection store is not available", Err: err}
}
