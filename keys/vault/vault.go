// Package vault has the keys of a ring wrapped by the transit engine of HashiCorp
// Vault, or of a server that speaks its API. The key that wraps never leaves it;
// turning it over there needs nothing here, because a wrapped text names its version.
//
// The token needs "update" on MOUNT/encrypt/KEY and MOUNT/decrypt/KEY, no more.
package vault

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Config says where the key is.
type Config struct {
	// Address of the server: https, or http on a loopback literal, where an
	// agent of Vault listens. Required.
	Address string
	// Mount of the transit engine. Empty: "transit".
	Mount string
	// Key in the engine. Required. It must not be a derived one.
	Key string
	// Namespace of Vault Enterprise. Empty: none.
	Namespace string
	// Token gives the current token, for each request anew: tokens are renewed
	// and replaced while a program runs. Nil: none is sent (an agent adds it).
	Token func(context.Context) (string, error)
	// Transport carries the requests, with the roots and client certificate to
	// use. Nil: the system's roots, no proxy.
	Transport http.RoundTripper
}

// Transit is a keys.KMS. It is safe for concurrent use if Token is.
type Transit struct {
	base, namespace, key string
	token                func(context.Context) (string, error)
	client               *http.Client
}

var (
	validPath = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
	validName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
)

const maxAnswer = 4 << 20

// New checks the configuration. Nothing is sent.
func New(c Config) (*Transit, error) {
	u, err := url.Parse(c.Address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("vault: the address is not the URL of a server")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Scheme != "https" && (u.Scheme != "http" || err != nil || !ip.IsLoopback()) {
		return nil, errors.New("vault: the address must be https, or http on a loopback address")
	}
	if c.Mount == "" {
		c.Mount = "transit"
	}
	// A dot segment would lead to another endpoint, with our token.
	if !validPath.MatchString(c.Mount) || strings.Contains("/"+c.Mount+"/", "/../") || strings.Contains("/"+c.Mount+"/", "/./") ||
		!validName.MatchString(c.Key) || c.Key == "." || c.Key == ".." {
		return nil, errors.New("vault: the mount or the key has a name that can't be")
	}
	transport := c.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.Proxy = nil // the environment must not choose who sees the keys
		transport = own
	}
	return &Transit{
		base: strings.TrimSuffix(u.String(), "/") + "/v1/" + c.Mount, namespace: c.Namespace, key: c.Key, token: c.Token,
		client: &http.Client{Transport: transport, Timeout: 30 * time.Second,
			// A standby redirects to the active server; whoever answers could
			// redirect token and keys elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// Wrap encrypts with the newest version of the key.
func (t *Transit) Wrap(ctx context.Context, plaintext []byte) ([]byte, error) {
	var out struct {
		Ciphertext string `json:"ciphertext"`
	}
	if err := t.ask(ctx, "encrypt", map[string]string{"plaintext": base64.StdEncoding.EncodeToString(plaintext)}, &out); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(out.Ciphertext, "vault:v") {
		return nil, errors.New("vault: the answer holds no ciphertext")
	}
	return []byte(out.Ciphertext), nil
}

// Unwrap decrypts what Wrap returned, under whatever version that was.
func (t *Transit) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	if !bytes.HasPrefix(wrapped, []byte("vault:v")) {
		return nil, errors.New("vault: the text was not wrapped by a transit engine")
	}
	var out struct {
		Plaintext *string `json:"plaintext"`
	}
	if err := t.ask(ctx, "decrypt", map[string]string{"ciphertext": string(bytes.TrimSpace(wrapped))}, &out); err != nil {
		return nil, err
	}
	if out.Plaintext == nil {
		return nil, errors.New("vault: the answer holds no plaintext")
	}
	plain, err := base64.StdEncoding.DecodeString(*out.Plaintext)
	if err != nil {
		return nil, errors.New("vault: the answer's plaintext is not base64") // the cause quotes a part of it
	}
	return plain, nil
}

func (t *Transit) ask(ctx context.Context, operation string, in map[string]string, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return errors.New("vault: the request can not be encoded")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+"/"+operation+"/"+t.key, bytes.NewReader(body))
	if err != nil {
		return errors.New("vault: the request can not be made")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Vault-Request", "true") // asked for by agents, against forged requests
	if t.namespace != "" {
		r.Header.Set("X-Vault-Namespace", t.namespace)
	}
	if t.token != nil {
		token, err := t.token(ctx)
		if err != nil {
			return fmt.Errorf("vault: no token: %w", err)
		}
		r.Header.Set("X-Vault-Token", token)
	}
	resp, err := t.client.Do(r)
	if err != nil {
		var whole *url.Error
		if errors.As(err, &whole) {
			err = whole.Err
		}
		return fmt.Errorf("vault: %s: %w", operation, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// 403 no right, 404 no such mount or key, 400 not wrapped by this key,
		// 503 sealed. The body's text is not ours to repeat.
		return fmt.Errorf("vault: %s: status %d", operation, resp.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(text) > maxAnswer {
		return fmt.Errorf("vault: %s: the answer can not be read", operation)
	}
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(text, &envelope) != nil || json.Unmarshal(envelope.Data, out) != nil {
		return fmt.Errorf("vault: %s: the answer is not what the transit engine gives", operation)
	}
	return nil
}
