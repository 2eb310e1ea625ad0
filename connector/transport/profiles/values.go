package profiles

import (
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-dev/drawbridge/connector/internal/strictjson"
	"github.com/drawbridge-dev/drawbridge/connector/transport"
)

var (
	wholePattern = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})$`)
	ratePattern  = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?$`)
)

const (
	shortest = 100 * time.Millisecond
	longest  = 10 * time.Minute
)

// limits reads bounds. A zero would mean the default to the transport, and
// "none" to whoever wrote it, so it is refused.
func (r reader) limits(l *transport.Limits) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		fields := map[string]strictjson.Field{
			"header_bytes":     whole(r, &l.HeaderBytes, 1<<10, 1<<20),
			"body_bytes":       whole(r, &l.BodyBytes, 1<<10, 64<<20),
			"error_body_bytes": whole(r, &l.ErrorBodyBytes, 256, 1<<20),
			"dial":             r.duration(&l.Dial),
			"tls":              r.duration(&l.TLS),
			"response_header":  r.duration(&l.ResponseHeader),
			"read":             r.duration(&l.Read),
			"write":            r.duration(&l.Write),
			"exchange":         r.duration(&l.Exchange),
			"concurrency":      whole(r, &l.Concurrency, 1, 1024),
			"queue":            whole(r, &l.Queue, 1, 1<<16),
			"rate":             r.rate(&l.Rate),
			"burst":            whole(r, &l.Burst, 1, 100_000),
			"retry_budget":     whole(r, &l.RetryBudget, 1, 100_000),
		}
		for name, f := range fields {
			fields[name] = strictjson.Optional(f)
		}
		r.Object(n, at, fields)
	}}
}

// whole reads a whole number in plain digits: 1e3 and 5.0 are refused.
func whole[T uint16 | int | int64](r reader, into *T, low, high int64) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		v, err := strconv.ParseInt(n.Text, 10, 64)
		if n.Kind != '0' || err != nil || !wholePattern.MatchString(n.Text) || v < low || v > high {
			r.Fault(n, at, "must be a whole number from %d to %d", low, high)
			return
		}
		*into = T(v)
	}}
}

func (r reader) duration(into *time.Duration) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		d, err := time.ParseDuration(n.Text)
		if n.Kind != '"' || err != nil || d < shortest || d > longest {
			r.Fault(n, at, "must be a time such as \"5s\", from 100ms to 10m")
			return
		}
		*into = d
	}}
}

func (r reader) rate(into *float64) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		v, err := strconv.ParseFloat(n.Text, 64)
		if n.Kind != '0' || err != nil || !ratePattern.MatchString(n.Text) || math.IsNaN(v) || v < 0.01 || v > 10_000 {
			r.Fault(n, at, "must be calls a second, from 0.01 to 10000")
			return
		}
		*into = v
	}}
}

func (r reader) truth(into *bool) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		if n.Kind != 't' && n.Kind != 'f' {
			r.Fault(n, at, "must be true or false")
		}
		*into = n.Kind == 't'
	}}
}

func (r reader) statuses(into *[]int) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		r.List(n, at, func(item strictjson.Node, at string) {
			var status int
			whole(r, &status, 100, 599).Read(item, at)
			if status == 0 || !r.ask(item, at, transport.Profile{BaseURL: anywhere, RefusesBeforeProcessing: []int{status}}) {
				return
			}
			if slices.Contains(*into, status) {
				r.Fault(item, at, "is there twice")
			}
			*into = append(*into, status)
		})
	}}
}

// requestID refuses headers whose value is a secret or an address: the id goes
// into results and logs.
func (r reader) requestID(into *string) strictjson.Field {
	return strictjson.Field{Read: func(n strictjson.Node, at string) {
		r.Text(into).Read(n, at)
		if *into == "" || !r.ask(n, at, transport.Profile{BaseURL: anywhere, RequestIDHeader: *into}) {
			return
		}
		switch name := strings.ToLower(*into); {
		case strings.Contains(name, "cookie"), strings.Contains(name, "auth"), strings.Contains(name, "token"),
			strings.Contains(name, "secret"), strings.HasPrefix(name, "proxy-"), name == "location", name == "content-location", name == "link":
			r.Fault(n, at, "is a header whose value must not get into logs")
		}
		*into = http.CanonicalHeaderKey(*into)
	}}
}
