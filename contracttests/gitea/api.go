package gitea

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// A StatusError is an answer other than 2xx to [Server.API].
type StatusError struct {
	Method, Path string
	Status       int
	Header       http.Header
	Body         []byte // not part of the error text
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("gitea: %s %s answered %d", e.Method, e.Path, e.Status)
}

// API calls /api/v1 as a user whom the server made, with that user's password; as "" it
// calls without one. path begins with a slash and may carry a query. in, if not nil, is
// sent as JSON; out, if not nil, is filled from the answer. An answer that is not 2xx is a
// *StatusError. It is the way to whatever the named methods don't do.
func (s *Server) API(ctx context.Context, as, method, path string, in, out any) error {
	_, err := s.call(ctx, as, method, path, in, out)
	return err
}

func (s *Server) call(ctx context.Context, as, method, path string, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("gitea: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+"/api/v1"+path, body)
	if err != nil {
		return nil, fmt.Errorf("gitea: %w", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if as != "" {
		password, ok := s.password(as)
		if !ok {
			return nil, fmt.Errorf("gitea: no user %q was made here", as)
		}
		req.SetBasicAuth(as, password)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("gitea: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("gitea: %s %s: %w", method, req.URL.Path, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, &StatusError{Method: method, Path: req.URL.Path, Status: resp.StatusCode, Header: resp.Header, Body: answer}
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			return nil, fmt.Errorf("gitea: %s %s: answer is not what was expected: %w", method, req.URL.Path, err)
		}
	}
	return resp.Header, nil
}

func (s *Server) password(login string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.passwords[login]
	return p, ok
}
