package transport

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/drawbridge-dev/drawbridge/connector"
)

// respond is the last answer, with all attempts. Status is 0 when none came.
func (c *call) respond() connector.Response {
	return c.answer.response(c.ep.profile.RequestIDHeader, c.attempts)
}

func (a answer) response(idHeader string, attempts []connector.Attempt) connector.Response {
	r := connector.Response{
		Status: a.status, Header: a.header, Body: a.body, FetchedAt: a.at, RetryAfter: a.wait, Attempts: attempts,
		Quota: a.quota, FromCache: a.stored, Revalidated: a.stored,
	}
	if a.header != nil {
		r.RequestID = clean(a.header.Get(requestID(idHeader)))
		// Nothing that could act as a credential leaves with the answer.
		for _, name := range []string{"Set-Cookie", "Authorization", "Proxy-Authorization", "Authentication-Info"} {
			delete(a.header, name)
		}
	}
	return r
}

func requestID(header string) string {
	if header == "" {
		return "X-Request-Id"
	}
	return header
}

// clean makes a foreign id fit for logs and records.
func clean(id string) string {
	b := make([]byte, 0, min(len(id), 128))
	for i := 0; i < len(id) && len(b) < 128; i++ {
		if id[i] > ' ' && id[i] < 0x7f {
			b = append(b, id[i])
		}
	}
	return string(b)
}

// fail finishes an error with what it means for a write.
func (c *call) fail(ctx context.Context, err error) error {
	e := failure(ctx, err)
	if e.RetryAfter == 0 {
		e.RetryAfter = c.answer.wait
	}
	if !c.write {
		return e
	}
	if !wrote(c.attempts) {
		e.Effect = connector.DispositionNotApplied
		return e
	}
	e.Effect = connector.DispositionUnknown
	switch e.Code {
	case connector.CodeUnavailable, connector.CodeDeadline, connector.CodeCanceled:
		// What was lost is the proof; why it was lost is the cause.
		e.Code = connector.CodeOutcomeUnknown
	}
	return e
}

// refused is the error for a write's answer that proves nothing in general and
// a refusal by this provider's contract. Other answers are the connector's.
func (c *call) refused() *connector.Error {
	s := c.answer.status
	if !c.write || s != http.StatusRequestTimeout && s < 500 || !slices.Contains(c.ep.profile.RefusesBeforeProcessing, s) {
		return nil
	}
	e := connector.Fail(connector.CodeUnavailable, "the provider refused the request without processing it")
	e.Effect, e.RetryAfter = connector.DispositionNotApplied, c.answer.wait
	return e
}

// note logs the last of some attempts: where to, not what.
func (t *Transport) note(ctx context.Context, e *endpoint, conn connector.ConnectionID, method string, rows []connector.Attempt, err error) {
	level := slog.LevelDebug
	if err != nil {
		level = slog.LevelWarn
	}
	if !t.log.Enabled(ctx, level) {
		return
	}
	last := rows[len(rows)-1]
	t.log.LogAttrs(ctx, level, "provider request",
		slog.String("profile", e.profile.Name), slog.String("method", method), slog.String("connection", string(conn)),
		slog.Int("attempt", last.N), slog.Int("status", last.Status), slog.Bool("wrote", last.WroteRequest),
		slog.Duration("waited", last.Waited), slog.String("stop", last.Stop))
}
