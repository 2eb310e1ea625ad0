package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// everything prints an error with all of its causes.
func everything(err error) string {
	var b strings.Builder
	for ; err != nil; err = errors.Unwrap(err) {
		fmt.Fprintf(&b, "%v %+v %#v\n", err, err, err)
	}
	return b.String()
}

// Guarantee: NET10
func TestNothingSecretComesOut_S3(t *testing.T) {
	const query, body, answer = "canary-query", "canary-body", "canary-answer"
	s := serve(t, always(200, `{}`))
	refused := s.url
	s.close()
	ends := map[string]act{"refused": nil}
	for i, f := range faults {
		ends[fmt.Sprint("fault ", i)] = f
	}
	ends["not HTTP"] = func(_ int, r seen, c net.Conn) bool {
		io.WriteString(c, answer+" "+r.header.Get("Authorization")+"\r\n\r\n")
		return false
	}
	ends["odd header"] = raw("HTTP/1.1 200 OK\r\n" + answer + "\r\n\r\n")
	ends["odd length"] = raw("HTTP/1.1 200 OK\r\nContent-Length: " + answer + "\r\n\r\n")
	ends["odd chunk"] = raw(head + "Transfer-Encoding: chunked\r\n\r\n" + answer + "\r\n")
	ends["odd location"] = always(302, "", "Location: http://evil.example/"+answer+"?t="+answer)
	ends["echo"] = func(_ int, r seen, c net.Conn) bool {
		return say(c, 200, `{}`, "Authorization: "+r.header.Get("Authorization"), "Set-Cookie: t="+r.header.Get("Authorization"))
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			at := refused
			if end != nil {
				at = serve(t, end).url
			}
			var logged bytes.Buffer
			tr, err := New(Config{
				Profiles: Static{"org": quick(Loopback("org", at))}, Credentials: &tokens{},
				Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer tr.Close()
			tr.firstWait = 2e6
			r, w := read("/"+query), write("/"+query, body)
			r.Query, w.Query = url.Values{"t": {query}}, url.Values{"t": {query}}
			var out strings.Builder
			for _, do := range []func(context.Context) (connector.Response, error){
				func(ctx context.Context) (connector.Response, error) {
					return tr.Do(ctx, alice, connector.ClassRead, r)
				},
				func(ctx context.Context) (connector.Response, error) {
					return tr.Do(ctx, alice, connector.ClassWrite, w)
				},
				func(ctx context.Context) (connector.Response, error) {
					return tr.Exchange(ctx, "org", Exchange{URL: at + "/" + query, Form: url.Values{"refresh_token": {body}},
						Header: http.Header{"Authorization": {"Basic " + canary}}})
				},
			} {
				resp, err := do(t.Context())
				out.WriteString(everything(err))
				fmt.Fprintf(&out, "%+v", resp.Attempts)
				if dump := fmt.Sprintf("%+v", resp); strings.Contains(dump, canary) {
					t.Errorf("the token is in a response: %s", dump)
				}
			}
			if logged.Len() == 0 {
				t.Error("nothing was logged")
			}
			for _, secret := range []string{canary, query, body, answer, "evil.example"} {
				if strings.Contains(out.String(), secret) {
					t.Errorf("%s is in an error: %s", secret, out.String())
				}
				if strings.Contains(logged.String(), secret) {
					t.Errorf("%s is in the log: %s", secret, logged.String())
				}
			}
		})
	}
}
