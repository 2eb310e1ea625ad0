package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// errCredential marks what Credentials answered, so that it is neither retried
// nor taken for the provider's.
type errCredential struct{ err error }

func (e *errCredential) Error() string { return "no credential: " + e.err.Error() }
func (e *errCredential) Unwrap() error { return e.err }

// failure turns the end of an attempt into the error of a call.
func failure(ctx context.Context, err error) *connector.Error {
	var (
		own    *connector.Error
		stop   *errBlocked
		cred   *errCredential
		answer *bodyFault
		tunnel *errTunnel
	)
	switch {
	case errors.As(err, &stop):
		return &connector.Error{Code: connector.CodeEgressBlocked, Message: stop.why}
	case ctx.Err() != nil:
		e := *connector.AsError(ctx.Err())
		return &e
	case errors.As(err, &own):
		e := *own // it may be shared by others who were refused alike
		return &e
	case errors.As(err, &cred):
		e := *connector.AsError(cred.err)
		return &e
	case errors.As(err, &tunnel):
		return tunnel.coded()
	case errors.As(err, &answer):
		return &connector.Error{Code: answer.code, Message: answer.why, Err: cause(answer.err)}
	case err == context.Canceled, err == context.DeadlineExceeded: // while queueing
		e := *connector.AsError(err)
		return &e
	case isCertificate(err):
		return &connector.Error{Code: connector.CodeEgressBlocked,
			Message: "the server's certificate does not prove the profile's host", Err: cause(err)}
	case isHeaderOverflow(err):
		return &connector.Error{Code: connector.CodeTooLarge, Message: "the answer's header is over the profile's size limit"}
	}
	return &connector.Error{Code: connector.CodeUnavailable, Err: cause(err)}
}

// refuse is failure for a call of which nothing was sent.
func refuse(err error, write bool) error {
	e := failure(context.Background(), err)
	if write {
		e.Effect = connector.DispositionNotApplied
	}
	return e
}

// mayPass reports whether the same request can fare better a moment later.
func mayPass(err error) bool {
	var (
		own    *connector.Error
		stop   *errBlocked
		cred   *errCredential
		answer *bodyFault
		tunnel *errTunnel
	)
	switch {
	case errors.As(err, &answer):
		return answer.cut
	case errors.As(err, &tunnel):
		return tunnel.passing()
	case errors.As(err, &own), errors.As(err, &stop), errors.As(err, &cred), isCertificate(err), isHeaderOverflow(err):
		return false
	}
	return true
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

func isCertificate(err error) bool {
	var (
		verify    *tls.CertificateVerificationError
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
	)
	return errors.As(err, &verify) || errors.As(err, &host) || errors.As(err, &authority) || errors.As(err, &invalid)
}

// isHeaderOverflow knows net/http's errors by their texts: they have no type.
// The second one is HTTP/2's.
func isHeaderOverflow(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "response headers exceeded") ||
		strings.Contains(err.Error(), "response header list larger than advertised limit"))
}

// cause keeps of a network error what an operator needs and programs test for,
// and nothing that a URL, a header or the provider's bytes could be in: url.Error
// quotes the query, net/http quotes malformed answers, x509 quotes foreign names.
// Timeouts of net and net/http claim to be context.DeadlineExceeded; whether
// the time of the call is over is asked of its context alone.
func cause(err error) error {
	var (
		number syscall.Errno
		name   *net.DNSError
		op     *net.OpError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &name):
		if name.IsNotFound {
			return errors.New("no such host")
		}
		return errors.New("the host's name could not be resolved")
	case isCertificate(err):
		return errors.New("certificate verification failed")
	case errors.As(err, &number):
		if errors.As(err, &op) {
			return fmt.Errorf("%s: %w", op.Op, number)
		}
		return number
	case isTimeout(err):
		return errors.New("timed out")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return io.EOF
	}
	inner := err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return fmt.Errorf("the exchange broke (%T)", inner)
}
