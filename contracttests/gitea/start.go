// Package gitea runs a real ticket system for tests: Gitea, which nobody on this project
// wrote, on a database of its own, with OAuth, access control, issues and signed webhooks.
//
// [Start] starts a server and makes its administrator, the methods of [Server] put users,
// repositories, applications and issues into it, [Login] is the person at the browser, and
// [Server.ListIssues] reads the provider's own ledger, which is what a test believes when
// it asks how many tickets there are. The package judges nothing and imports nothing of
// Drawbridge, so that what it reports can't be bent by what is under test.
//
// The binary comes from .ci/gitea. Linux is what this is tried on; other Unix systems lack
// only the guard that stops the server when the test process is killed.
package gitea

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Config says which Gitea to start and how. The zero Config takes both paths from the
// environment.
type Config struct {
	// Binary is the Gitea program and Static the folder with its templates and options.
	// Empty: the environment variables DRAWBRIDGE_TEST_GITEA and DRAWBRIDGE_TEST_GITEA_STATIC.
	Binary, Static string

	// Dir is an empty or missing folder for database, repositories and log; Close leaves
	// it in place. Empty: a temporary folder that Close removes.
	Dir string

	// WebhookHosts are hosts, networks or patterns that webhooks may be sent to, besides
	// loopback and private addresses.
	WebhookHosts []string

	// AccessTokenLife is the life of OAuth access tokens, in whole seconds. Zero: an hour,
	// as Gitea ships.
	AccessTokenLife time.Duration

	// ReuseRefreshTokens leaves used refresh tokens valid, as Gitea ships. False: a refresh
	// token works once.
	ReuseRefreshTokens bool
}

// A Server is a running Gitea. Its methods are safe for concurrent use.
type Server struct {
	// URL is http://127.0.0.1:port, without a trailing slash.
	URL string

	// Dir holds the server's files, Log the path of its log file.
	Dir, Log string

	admin  account
	remove bool // Dir is ours
	client *http.Client
	grace  time.Duration // how long the server may take to end by itself
	cmd    *exec.Cmd
	exited <-chan struct{} // closed after exit is set
	exit   error
	close  sync.Once
	failed error // what Close returns

	mu        sync.Mutex
	passwords map[string]string // by login
}

type account struct{ login, password string }

// Start runs a new Gitea on a free port of 127.0.0.1 and returns when it answers. ctx
// covers the start only; the caller must Close the server.
func Start(ctx context.Context, c Config) (*Server, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{
		Dir: c.Dir,
		client: &http.Client{
			Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 8},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		admin:     account{"keeper", rand.Text()},
		grace:     20 * time.Second,
		passwords: make(map[string]string),
	}
	s.passwords[s.admin.login] = s.admin.password
	if c.Dir == "" {
		if s.Dir, err = os.MkdirTemp("", "drawbridge-gitea-"); err != nil {
			return nil, fmt.Errorf("gitea: %w", err)
		}
		s.remove = true
	}
	s.Log = filepath.Join(s.Dir, "gitea.log")
	if err := s.start(ctx, c); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("gitea: %w", err)
	}
	return s, nil
}

func (c Config) complete() (Config, error) {
	if c.Binary == "" {
		c.Binary = os.Getenv("DRAWBRIDGE_TEST_GITEA")
	}
	if c.Static == "" {
		c.Static = os.Getenv("DRAWBRIDGE_TEST_GITEA_STATIC")
	}
	if c.Binary == "" || c.Static == "" {
		return c, errors.New("gitea: no program or no folder with its templates; run the test by .ci/gitea")
	}
	if c.AccessTokenLife%time.Second != 0 || c.AccessTokenLife < 0 {
		return c, errors.New("gitea: access token life is not in whole seconds")
	}
	if c.Dir == "" {
		return c, nil
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return c, fmt.Errorf("gitea: %w", err)
	}
	files, err := os.ReadDir(c.Dir)
	if err != nil {
		return c, fmt.Errorf("gitea: %w", err)
	}
	if len(files) > 0 {
		return c, errors.New("gitea: the work folder is not empty")
	}
	// The server changes its own working folder, so a relative path would move with it.
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return c, fmt.Errorf("gitea: %w", err)
	}
	return c, nil
}

func (s *Server) start(ctx context.Context, c Config) error {
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	port, err := s.choosePort(ctx, c)
	if err != nil {
		return err
	}
	for _, arguments := range [][]string{
		{"migrate"},
		{
			"admin", "user", "create", "--username", s.admin.login, "--password", s.admin.password,
			"--email", s.admin.login + "@example.test", "--admin", "--must-change-password=false",
		},
	} {
		cmd := s.command(c, log, arguments...)
		if err := own(ctx, cmd); err != nil {
			return fmt.Errorf("%s: %w%s", arguments[0], err, s.lastWords())
		}
	}
	for attempt := 1; ; attempt++ {
		err := s.web(ctx, s.command(c, log, "web"))
		if err == nil || attempt == 3 || !s.portTaken(port) {
			return err
		}
		s.abandon()
		if port, err = s.choosePort(ctx, c); err != nil {
			return err
		}
	}
}

// choosePort finds a free port and writes the settings for it. Another process can take
// the port before the server has it. An inherited listener would be tighter, but a Gitea
// that is given one takes its parent for the Gitea before it and terminates it.
func (s *Server) choosePort(ctx context.Context, c Config) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	s.URL = fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := l.Close(); err != nil {
		return 0, err
	}
	return port, os.WriteFile(s.settingsFile(), []byte(c.settings(s.Dir, port)), 0o600)
}

// portTaken tells an unlucky port from a server that does not work.
func (s *Server) portTaken(port int) bool {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func (s *Server) settingsFile() string { return filepath.Join(s.Dir, "app.ini") }

// web starts the server and waits until it answers or has ended.
func (s *Server) web(ctx context.Context, cmd *exec.Cmd) error {
	exited, begun := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(exited)
		s.exit = ownUntilExit(cmd, begun)
	}()
	if err := <-begun; err != nil {
		return err
	}
	s.cmd, s.exited = cmd, exited

	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		// The administrator's password was made for this server, so whoever accepts it is
		// this server and not another one on a port that it lost.
		var failed *StatusError
		err := s.API(ctx, s.admin.login, http.MethodGet, "/user", nil, nil)
		if err == nil {
			return nil
		}
		if errors.As(err, &failed) && failed.Status != http.StatusServiceUnavailable {
			return err
		}
		select {
		case <-again.C:
		case <-exited:
			s.cmd = nil
			return fmt.Errorf("server ended at its start: %v%s", s.exit, s.lastWords())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) command(c Config, log io.Writer, arguments ...string) *exec.Cmd {
	cmd := exec.Command(c.Binary, append([]string{"--config", s.settingsFile()}, arguments...)...)
	cmd.Dir = s.Dir
	cmd.Stdout, cmd.Stderr = log, log
	// Nothing of the caller's environment but the way to git: no proxies, no credentials,
	// no git configuration of the person who runs the tests.
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "TMPDIR=" + s.Dir, "GIT_CONFIG_NOSYSTEM=1",
		"GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT=true",
	}
	return cmd
}

// Admin returns the administrator's login and password.
func (s *Server) Admin() (login, password string) { return s.admin.login, s.admin.password }
