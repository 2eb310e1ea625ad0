package transport

import (
	"net/http"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// speakHTTP2 lets a pool of reads use HTTP/2 where the server offers it.
//
// Two things of HTTP/1.1 need a replacement. A dead connection carries all
// requests to a host and would be chosen again and again, so the server is
// pinged when it has been silent, and the connection given up when that stays
// unanswered; both together take less than the wait for a response header. And
// net/http repeats a refused request up to seven times by itself, see
// [attempt.limit].
func speakHTTP2(t *http.Transport, l Limits) {
	t.TLSClientConfig = t.TLSClientConfig.Clone()
	t.TLSClientConfig.NextProtos = []string{"h2", "http/1.1"}
	t.Protocols.SetHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{
		SendPingTimeout: l.ResponseHeader / 3,
		PingTimeout:     l.ResponseHeader / 3,
	}
}

// errReplays is what a round trip that [attempt.limit] ended came to.
var errReplays error = connector.Fail(connector.CodeUnavailable, "the server keeps refusing the request unread")
