package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
	"github.com/drawbridge-dev/drawbridge/connector/transport/profiles"
)

func (c *check) tls(ctx context.Context, p transport.Place, conn net.Conn) bool {
	state, err := p.Handshake(ctx, conn)
	if err == nil {
		c.add("tls", OK, tls.VersionName(state.Version)+" with "+tls.CipherSuiteName(state.CipherSuite), "")
		c.certificate(state.PeerCertificates)
		return true
	}
	var verify *tls.CertificateVerificationError
	if !errors.As(err, &verify) {
		text, next := noHandshake(err)
		c.add("tls", Failed, text, next)
		return false
	}
	c.add("tls", OK, "a handshake began, and the server showed a certificate", "")
	text, next := noTrust(err, p.Host)
	if len(verify.UnverifiedCertificates) > 0 {
		text += "; " + about(verify.UnverifiedCertificates[0])
	}
	c.add("certificate", Failed, text, next)
	return false
}

// certificate reports on one that was verified.
func (c *check) certificate(chain []*x509.Certificate) {
	if len(chain) == 0 {
		return
	}
	left := time.Until(chain[0].NotAfter)
	if left < soon {
		c.add("certificate", Warning, about(chain[0]), "the server's certificate must be renewed soon: tell whoever runs the service")
		return
	}
	c.add("certificate", OK, about(chain[0]), "")
}

// about says whom a certificate is for and how long. Names come from a
// stranger, so they are cut and cleaned.
func about(cert *x509.Certificate) string {
	var names []string
	for _, n := range cert.DNSNames {
		names = append(names, clean(n))
	}
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	more := ""
	if len(names) > 5 {
		more = fmt.Sprintf(" and %d more", len(names)-5)
		names = names[:5]
	}
	list := strings.Join(names, ", ") + more
	if list == "" {
		list = "nobody"
	}
	days := int(time.Until(cert.NotAfter).Hours() / 24)
	if time.Now().After(cert.NotAfter) {
		return fmt.Sprintf("it is for %s and expired on %s", list, cert.NotAfter.UTC().Format(time.DateOnly))
	}
	return fmt.Sprintf("it is for %s and good for %d more %s", list, days, plural(days, "day", "days"))
}

func noTrust(err error, host string) (text, next string) {
	var (
		invalid   x509.CertificateInvalidError
		name      x509.HostnameError
		authority x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &name):
		return "the certificate is not for " + host, "name the host that it is for in base_url, or have the certificate corrected"
	case errors.As(err, &authority):
		return "the certificate is by an authority that this profile does not trust",
			"if it is your organisation's own, put its root certificate into roots_file"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet", "have it renewed, and check this machine's clock"
	}
	return "the certificate was refused", "ask whoever runs the service for a certificate that follows the rules"
}

func noHandshake(err error) (text, next string) {
	var header tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &header):
		return "what answers there does not speak TLS", "check the port in base_url"
	case errors.Is(err, context.DeadlineExceeded) || timedOut(err):
		return "the handshake took too long", "check for a firewall or a proxy that holds TLS back"
	case strings.Contains(err.Error(), "unsupported version"), strings.Contains(err.Error(), "protocol version"):
		return "the server speaks no TLS version of ours", "it must offer TLS 1.2 or later"
	}
	if errors.As(err, &op) && op.Op == "remote error" { // an alert, whose texts are a closed list
		return "the server broke the handshake off: " + op.Err.Error(), "ask whoever runs the service what it expects"
	}
	return "the connection broke during the handshake", "check that the port in base_url is the one for https"
}

func noConnection(err error) string {
	var number syscall.Errno
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case timedOut(err):
		return "no answer in time"
	case errors.As(err, &number):
		return number.Error()
	}
	return "no connection"
}

func timedOut(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// roots reports on the certificates that a profile trusts instead of the
// system's.
func (c *check) roots(p transport.Profile) {
	for _, cert := range profiles.Certificates(p.Roots) {
		left := time.Until(cert.NotAfter)
		switch {
		case left < 0:
			c.add("certificate", Failed, "a root certificate of the profile has expired: "+clean(cert.Subject.String()), "put its successor into roots_file")
		case left < soon:
			c.add("certificate", Warning, "a root certificate of the profile expires soon: "+clean(cert.Subject.String()), "put its successor into roots_file")
		}
	}
}
