package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/contracttests/gitea"
	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
	"github.com/drawbridge-dev/drawbridge/credentials"
	"github.com/drawbridge-dev/drawbridge/host"
)

type connectFlags struct {
	provider, name, url, clientID string
	login                         string
	projects, private             []string
	scopes                        []string
	reconnect                     string
	open, device, key             bool
}

func (a *app) connectCommand() *cobra.Command {
	var f connectFlags
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Connect an account of a ticket system",
		Example: `  drawbridge connect --provider sandbox --url http://127.0.0.1:8123 --as acme/alice
  drawbridge connect --provider gitea --url https://git.example.org --client-id ID --project team/app
  drawbridge connect --provider gitea --url https://git.example.org --key < token`,
		Long: `Prints a link that starts the provider's own consent page in your browser, and waits
for it (OAuth with PKCE; the password never passes through Drawbridge). Afterwards the
account, its scopes and its projects are read from the provider.

With --key nobody signs in: the account's key or personal token is read from standard
input, never from the command line. The pages of drawbridge serve have a form for it.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.connect(cmd.Context(), f) },
	}
	s := cmd.Flags()
	s.StringVar(&f.provider, "provider", "", "which driver: sandbox or gitea")
	s.StringVar(&f.name, "name", "", "name of this ticket system here, when you have several of a kind")
	s.StringVar(&f.url, "url", "", "where the ticket system is; needed the first time")
	s.StringVar(&f.clientID, "client-id", "", "the OAuth client registered for Drawbridge there; needed the first time, except for the sandbox")
	s.StringSliceVar(&f.projects, "project", nil, "limit the connection to these projects (all that the account sees when left out)")
	s.StringSliceVar(&f.scopes, "scope", nil, "ask for these scopes instead of the usual ones")
	s.StringSliceVar(&f.private, "allow-private", nil, "private address range that the URL's host may have, such as 10.1.2.0/24")
	s.StringVar(&f.reconnect, "connection", "", "renew this connection instead of making a new one")
	s.StringVar(&f.login, "login", "", "USER:PASSWORD, to walk the provider's pages without a browser; for the sandbox and tests only")
	s.BoolVar(&f.open, "open", false, "also open the link in the default browser")
	s.BoolVar(&f.key, "key", false, "read a key or personal token from standard input instead; kept for this ticket system")
	s.BoolVar(&f.device, "device", false, "this machine has no browser: enter a code in one on any other (RFC 8628)")
	return cmd
}

// instance finds the ticket system that the flags mean, and saves a new one.
func (a *app) instance(f connectFlags) (host.Instance, error) {
	if f.name == "" {
		f.name = f.provider
	}
	if f.name == "" {
		return host.Instance{}, usagef("connect needs --provider, such as --provider sandbox")
	}
	known, err := host.Instances(a.data)
	if err != nil {
		return host.Instance{}, err
	}
	var i host.Instance
	for _, k := range known {
		if k.Name == f.name {
			i = k
		}
	}
	if f.url == "" && i.URL == "" {
		return i, usagef("where is %s? give --url the first time", f.name)
	}
	if f.url != "" {
		i.URL = strings.TrimSuffix(f.url, "/")
		i.Private = f.private
		if i.Profile == "" { // else the profile says which addresses may be dialled
			i.Private = append(host.Loopback(i.URL), f.private...)
		}
	}
	if f.provider != "" {
		i.Driver = f.provider
	}
	i.Name = f.name
	if f.clientID != "" {
		i.ClientID = f.clientID
	}
	if f.key {
		i.SignIn = host.SignInKey
	}
	if err := i.Check(); err != nil {
		return i, usagef("%w (--client-id, --url and --allow-private set it)", err)
	}
	return i, nil
}

func (a *app) connect(ctx context.Context, f connectFlags) error {
	i, err := a.instance(f)
	if err != nil {
		return err
	}
	if err := host.SaveInstance(a.data, i); err != nil {
		return err
	}
	return a.with(ctx, func(h *host.Host, caller connector.Caller) error {
		if i.SignIn == host.SignInKey {
			return a.connectKey(ctx, h, caller, f, i)
		}
		if f.device {
			return a.connectDevice(ctx, h, caller, f, i)
		}
		back, err := listen(ctx)
		if err != nil {
			return err
		}
		defer back.close()
		begun, err := h.Credentials.Begin(ctx, caller, credentials.BeginRequest{
			Provider: i.Name, RedirectURI: back.redirectURI(), Resources: f.projects, Scopes: f.scopes,
			Connection: connector.ConnectionID(f.reconnect), BrowserKey: back.key,
		})
		if err != nil {
			return err
		}
		answer, err := a.authorize(ctx, f, i, begun, back)
		if err != nil {
			return err
		}
		runtime, ok := h.Runtime(i.Name)
		if !ok {
			return errors.New("the provider is not set up")
		}
		conn, err := h.Credentials.Finish(ctx, caller, back.key, answer, runtime.Identify)
		back.tell(err)
		if err != nil {
			return err
		}
		a.showConnected(conn)
		return nil
	})
}

// connectKey takes a key from standard input. As an argument, everybody who lists
// processes would see it.
func (a *app) connectKey(ctx context.Context, h *host.Host, caller connector.Caller, f connectFlags, i host.Instance) error {
	runtime, ok := h.Runtime(i.Name)
	if !ok {
		return errors.New("the provider is not set up")
	}
	text, err := io.ReadAll(io.LimitReader(a.in, maxKey+1))
	key := credentials.NewSecret(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		return err
	case key.IsZero() || len(text) > maxKey:
		return usagef("%s is connected with a key: give it on standard input, such as drawbridge connect --name %s < FILE", i.Name, i.Name)
	}
	conn, err := h.Credentials.Setup(ctx, caller, credentials.SetupRequest{Provider: i.Name, Scopes: f.scopes, Resources: f.projects,
		Connection: connector.ConnectionID(f.reconnect), Key: key}, runtime.Identify)
	if err != nil {
		return err
	}
	a.showConnected(conn)
	return nil
}

const maxKey = 16 << 10

// connectDevice shows a code, and asks the provider at its pace whether somebody has
// entered it.
func (a *app) connectDevice(ctx context.Context, h *host.Host, caller connector.Caller, f connectFlags, i host.Instance) error {
	runtime, ok := h.Runtime(i.Name)
	if !ok {
		return errors.New("the provider is not set up")
	}
	begun, err := h.Credentials.BeginDevice(ctx, caller, credentials.DeviceRequest{
		Provider: i.Name, Resources: f.projects, Scopes: f.scopes, Connection: connector.ConnectionID(f.reconnect)})
	if err != nil {
		return err
	}
	if f.login != "" {
		login, password, _ := strings.Cut(f.login, ":")
		if err := sandbox.LoginDevice(ctx, &http.Client{Timeout: 30 * time.Second}, begun.CompleteURL, login, password, true); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.err, "Open %s in a browser on any machine and enter\n\n  %s\n\nto connect %s as %s. Enter no code that somebody else gave you.\nWaiting until %s ...\n",
			begun.VerificationURL, begun.UserCode, i.Name, a.as, begun.ExpiresAt.Local().Format("15:04"))
	}
	for wait := begun.Interval; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		poll, err := h.Credentials.PollDevice(ctx, caller, begun.Transaction, runtime.Identify)
		if err != nil {
			return err
		}
		if poll.Wait == 0 {
			a.showConnected(poll.Connection)
			return nil
		}
		wait = poll.Wait
	}
}

// authorize gets the person through the provider's pages: by a link, or for the
// sandbox and tests by walking them.
func (a *app) authorize(ctx context.Context, f connectFlags, i host.Instance, begun credentials.Begun, back *loopback) (url.Values, error) {
	if f.login != "" {
		login, password, ok := strings.Cut(f.login, ":")
		if !ok {
			return nil, usagef("--login takes USER:PASSWORD")
		}
		walk := sandbox.Login
		if i.Driver == "gitea" {
			walk = gitea.Login
		}
		to, err := walk(ctx, &http.Client{Timeout: 30 * time.Second}, begun.URL, login, password, true)
		if err != nil {
			return nil, err
		}
		return to.Query(), nil
	}
	link := back.start(begun.URL)
	fmt.Fprintf(a.err, "Open this link in a browser on this machine to connect %s as %s:\n\n  %s\n\nWaiting until %s ...\n",
		i.Name, a.as, link, begun.ExpiresAt.Local().Format("15:04"))
	if f.open {
		_ = exec.CommandContext(ctx, "xdg-open", link).Start() // the link is printed anyway
	}
	wait, cancel := context.WithDeadline(ctx, begun.ExpiresAt)
	defer cancel()
	select {
	case answer := <-back.answers:
		return answer, nil
	case <-wait.Done():
		return nil, connector.Fail(connector.CodeDeadline, "nobody finished the sign-in in time")
	}
}

func (a *app) showConnected(c connector.Connection) {
	if a.json {
		a.printJSON(connectionJSON(c))
		return
	}
	fmt.Fprintf(a.out, "connected: %s at %s as %s\n", quoted(c.Account.Login, 60), quoted(c.Account.Organisation, 60), c.ID)
	fmt.Fprintf(a.out, "  scopes:   %s\n", strings.Join(c.Scopes, " "))
	fmt.Fprintf(a.out, "  projects: %s\n", quoted(strings.Join(c.Resources, ", "), 400))
	for _, n := range c.Notes {
		fmt.Fprintf(a.out, "  note:     %s\n", n)
	}
	fmt.Fprintf(a.out, "next: drawbridge call tickets.search '{\"query\":\"...\",\"page_size\":10,\"cursor\":null}'%s\n", a.flags())
}

// loopback is the one-shot listener of RFC 8252 section 7.3: an IP literal and a
// port of the moment. The link that is printed goes to it first, so that the
// browser that starts gets a cookie, and only that browser can finish: a link
// that was forwarded to somebody else ends there.
type loopback struct {
	listener net.Listener
	server   *http.Server
	key      string // browser key, in the cookie
	ticket   string // opens /start once
	target   chan string
	answers  chan url.Values
	outcome  chan error
}

const connectCookie = "drawbridge_connect"

func listen(ctx context.Context) (*loopback, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &loopback{listener: l, key: rand.Text(), ticket: rand.Text(), target: make(chan string, 1),
		answers: make(chan url.Values), outcome: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /start", b.handleStart)
	mux.HandleFunc("GET /callback", b.handleCallback)
	b.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go b.server.Serve(l) // ends with close
	return b, nil
}

func (b *loopback) redirectURI() string { return "http://" + b.listener.Addr().String() + "/callback" }

func (b *loopback) start(authorizationURL string) string {
	b.target <- authorizationURL
	return "http://" + b.listener.Addr().String() + "/start?ticket=" + b.ticket
}

func (b *loopback) handleStart(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if prefetch(r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !same(r.URL.Query().Get("ticket"), b.ticket) {
		http.NotFound(w, r)
		return
	}
	select {
	case to := <-b.target:
		http.SetCookie(w, &http.Cookie{Name: connectCookie, Value: b.key, Path: "/callback", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, to, http.StatusSeeOther)
	default:
		http.Error(w, "this link was used before; run drawbridge connect again", http.StatusGone)
	}
}

func (b *loopback) handleCallback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	// A browser that guesses the next page must not spend the code.
	if prefetch(r) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	cookie, err := r.Cookie(connectCookie)
	if err != nil || !same(cookie.Value, b.key) {
		http.Error(w, "this browser did not start the sign-in", http.StatusForbidden)
		return
	}
	select {
	case b.answers <- r.URL.Query():
	case <-r.Context().Done():
		return
	}
	text := "Connected. You can close this page."
	if err := <-b.outcome; err != nil {
		text = "Not connected: " + connector.AsError(err).Report().Message + ". The terminal says more."
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><html lang=en><title>Drawbridge</title><main><h1>Drawbridge</h1><p role=status>%s</p></main>", html.EscapeString(text))
}

// tell ends the browser's wait, if there is one.
func (b *loopback) tell(err error) { b.outcome <- err }

func (b *loopback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		b.server.Close()
	}
}

// prefetch reports a browser that loads a page nobody asked for yet.
func prefetch(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Sec-Purpose"), "prefetch") || strings.Contains(r.Header.Get("Purpose"), "prefetch")
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
