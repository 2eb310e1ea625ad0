package profiles

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

// A Description is a profile for people and programs, with its defaults filled
// in and without the proxy's credentials.
type Description struct {
	Name                    string          `json:"name"`
	BaseURL                 string          `json:"base_url"`
	AuthOrigins             []string        `json:"auth_origins"`
	Private                 []Exception     `json:"private"`
	Roots                   []Root          `json:"roots"` // empty: the system's
	Proxy                   string          `json:"proxy,omitempty"`
	ProxyCredentials        bool            `json:"proxy_credentials,omitempty"`
	HTTP2                   bool            `json:"http2"`
	RequestIDHeader         string          `json:"request_id_header"`
	RefusesBeforeProcessing []int           `json:"refuses_before_processing"`
	Limits                  EffectiveLimits `json:"limits"`
}

// An Exception is one entry of private.
type Exception struct {
	Host   string `json:"host"`
	Prefix string `json:"prefix"`
	Port   uint16 `json:"port"`
}

// A Root is one certificate that is trusted instead of the system's.
type Root struct {
	Subject  string    `json:"subject"`
	NotAfter time.Time `json:"not_after"`
	SHA256   string    `json:"sha256"`
}

// EffectiveLimits are the limits in the form of the file.
type EffectiveLimits struct {
	HeaderBytes    int64   `json:"header_bytes"`
	BodyBytes      int64   `json:"body_bytes"`
	ErrorBodyBytes int64   `json:"error_body_bytes"`
	Dial           string  `json:"dial"`
	TLS            string  `json:"tls"`
	ResponseHeader string  `json:"response_header"`
	Read           string  `json:"read"`
	Write          string  `json:"write"`
	Exchange       string  `json:"exchange"`
	Concurrency    int     `json:"concurrency"`
	Queue          int     `json:"queue"`
	Rate           float64 `json:"rate"`
	Burst          int     `json:"burst"`
	RetryBudget    int     `json:"retry_budget"`
}

// Describe shows one profile. Lists are never nil.
func Describe(p transport.Profile) Description {
	l := p.Limits.Effective()
	d := Description{
		Name: p.Name, BaseURL: p.BaseURL, AuthOrigins: append([]string{}, p.AuthOrigins...), Private: []Exception{}, Roots: []Root{},
		HTTP2: p.HTTP2, RequestIDHeader: p.RequestIDHeader, RefusesBeforeProcessing: append([]int{}, p.RefusesBeforeProcessing...),
		Limits: EffectiveLimits{
			l.HeaderBytes, l.BodyBytes, l.ErrorBodyBytes, l.Dial.String(), l.TLS.String(), l.ResponseHeader.String(),
			l.Read.String(), l.Write.String(), l.Exchange.String(), l.Concurrency, l.Queue, l.Rate, l.Burst, l.RetryBudget,
		},
	}
	if d.RequestIDHeader == "" {
		d.RequestIDHeader = "X-Request-Id"
	}
	for _, e := range p.Private {
		d.Private = append(d.Private, Exception{e.Host, e.Prefix.String(), e.Port})
	}
	for _, c := range Certificates(p.Roots) {
		sum := sha256.Sum256(c.Raw)
		d.Roots = append(d.Roots, Root{c.Subject.String(), c.NotAfter, hex.EncodeToString(sum[:])})
	}
	// A proxy that does not parse is shown as nothing: it may be a password.
	if u, err := url.Parse(p.Proxy); err == nil && p.Proxy != "" {
		d.ProxyCredentials = u.User != nil
		d.Proxy = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	}
	return d
}

// Certificates are the readable ones of a profile's roots.
func Certificates(roots []byte) (all []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, roots = pem.Decode(roots); block == nil {
			return all
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c)
		}
	}
}

// WriteText prints descriptions for a terminal. What a file says is quoted if
// it has control characters in it.
func WriteText(w io.Writer, all []Description) error {
	var b strings.Builder
	for i, d := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		line := func(key, value string) { fmt.Fprintf(&b, "  %-13s %s\n", key, value) }
		fmt.Fprintf(&b, "%s\n", shown(d.Name))
		line("base URL", shown(d.BaseURL))
		for _, o := range d.AuthOrigins {
			line("also", shown(o))
		}
		for _, e := range d.Private {
			line("private", fmt.Sprintf("%s port %d may be in %s", shown(e.Host), e.Port, e.Prefix))
		}
		if len(d.Roots) == 0 {
			line("trusts", "the system's certificate authorities")
		}
		for _, c := range d.Roots {
			line("trusts", fmt.Sprintf("%s, until %s", shown(c.Subject), c.NotAfter.UTC().Format(time.DateOnly)))
		}
		if d.Proxy != "" {
			text := shown(d.Proxy)
			if d.ProxyCredentials {
				text += ", with credentials"
			}
			line("proxy", text)
		}
		if d.HTTP2 {
			line("HTTP/2", "for reads")
		}
		if len(d.RefusesBeforeProcessing) > 0 {
			line("refusals", fmt.Sprintf("%d prove that a write was not processed", d.RefusesBeforeProcessing))
		}
		l := d.Limits
		line("limits", fmt.Sprintf("read %s, write %s, %d at once, %s a second, bodies up to %d bytes",
			l.Read, l.Write, l.Concurrency, strconv.FormatFloat(l.Rate, 'g', -1, 64), l.BodyBytes))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func shown(s string) string {
	if quoted := strconv.QuoteToASCII(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}
