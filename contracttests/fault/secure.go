package fault

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// secure is TLS on both sides.
type secure struct {
	server, client *tls.Config
	host           string // what the upstream calls itself
	roots          []byte
}

// StartTLS is Start for an https upstream. Clients speak TLS to the proxy and trust
// [Proxy.Roots]. Roots are the PEM certificates that the upstream's is checked
// against; nil: the system's. Unlike Start, the upstream gets its own name in the Host
// header, because servers of that kind answer by name.
func StartTLS(ctx context.Context, upstream string, roots []byte) (*Proxy, error) {
	address, err := origin(upstream, "https", "443")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(upstream)
	if err != nil {
		return nil, errors.New("fault: upstream is not a URL")
	}
	s := &secure{host: u.Host, client: &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}}
	if len(roots) > 0 {
		s.client.RootCAs = x509.NewCertPool()
		if !s.client.RootCAs.AppendCertsFromPEM(roots) {
			return nil, errors.New("fault: the roots are no PEM certificates")
		}
	}
	certificate, err := ownCertificate()
	if err != nil {
		return nil, fmt.Errorf("fault: %w", err)
	}
	s.server = &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	s.roots = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	return start(ctx, address, s)
}

// Roots are the PEM certificates that clients of the proxy have to trust; nil for one
// without TLS. The key behind them is of this proxy alone and is never written.
func (p *Proxy) Roots() []byte {
	if p.secure == nil {
		return nil
	}
	return p.secure.roots
}

// ownCertificate is good for this machine's loopback address and a day.
func ownCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	// Its own authority, so that whoever trusts it trusts nothing beside it.
	template := &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, err
}
