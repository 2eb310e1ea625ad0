package transport

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// openFor is how long a profile that keeps failing is left alone.
const openFor = 15 * time.Second

// What a call says about the provider's health. Nil is a sign of life.
var (
	errFailing = errors.New("the provider is failing")
	errSilent  = errors.New("says nothing about the provider")
)

// newBreaker opens when six of ten calls or more failed within half a minute,
// among ten at least, and then lets one call at a time probe.
func newBreaker(name string) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, MaxRequests: 1, Interval: 30 * time.Second, BucketPeriod: 5 * time.Second, Timeout: openFor,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			valid := n.TotalSuccesses + n.TotalFailures
			return valid >= 10 && n.TotalFailures*10 >= valid*6
		},
		IsExcluded: func(err error) bool { return err == errSilent },
	})
}

// allow asks the breaker. A write is no probe: it would risk an unknown outcome
// to learn what a read can tell as well.
func (e *endpoint) allow(write bool) (report func(error), err error) {
	if write && e.breaker.State() != gobreaker.StateClosed {
		err = gobreaker.ErrOpenState
	} else {
		report, err = e.breaker.Allow()
	}
	if err != nil {
		f := connector.Fail(connector.CodeUnavailable, "the provider kept failing; calls are held back for a while")
		f.RetryAfter, f.Guessed, f.Err = openFor, true, err
		return nil, f
	}
	return report, nil
}

// verdict sorts a call for the breaker. Refusals (4xx) are a sign of life. What
// callers, policies, credentials or quotas ended says nothing; nor does an odd
// answer, or one tenant's odd page could shut the profile for all.
func verdict(caller context.Context, resp connector.Response, err error) error {
	switch {
	case caller.Err() != nil || len(resp.Attempts) == 0:
		return errSilent
	case err == nil && resp.Status == 429:
		return errSilent
	case err == nil && resp.Status >= 500 && resp.Status != 501:
		return errFailing
	case err == nil:
		return nil
	}
	switch connector.CodeOf(err) {
	case connector.CodeUnavailable, connector.CodeDeadline, connector.CodeOutcomeUnknown:
		return errFailing
	}
	return errSilent
}
