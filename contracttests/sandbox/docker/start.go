package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ory/dockertest/v3"
	engine "github.com/ory/dockertest/v3/docker"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

// An Org is an organisation that runs outside this process. Close it.
type Org struct {
	// Ready is what the organisation said when it began to serve: its address,
	// its people and the token of its admin routes.
	Ready sandbox.Ready
	// Digest names what runs: the id of the image, or of the binary without one.
	Digest string

	close func() error
}

// Close stops the organisation and removes what was made for it. Once.
func (o *Org) Close() error { return o.close() }

// ErrNoEngine is returned when no container engine answers.
var ErrNoEngine = errors.New("docker: no container engine answers")

const (
	dockerfile = "FROM scratch\nCOPY sandboxorg /sandboxorg\nUSER 65532:65532\nENTRYPOINT [\"/sandboxorg\"]\n"
	port       = "8080/tcp"
	patience   = time.Minute // for an engine that is busy, not for the organisation
)

// Start runs a binary of Build in a container, found through DOCKER_HOST or at
// the engine's usual place. Arguments are those of cmd/sandboxorg; the address
// and the URL are Start's.
func Start(ctx context.Context, binary string, args ...string) (*Org, error) {
	pool, err := dockertest.NewPool("")
	if err == nil {
		err = pool.Client.PingWithContext(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrNoEngine, err)
	}
	folder, err := os.MkdirTemp("", "drawbridge-image")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if err := image(folder, binary); err != nil {
		return nil, err
	}
	free, err := freePort()
	if err != nil {
		return nil, err
	}
	// The organisation names itself in OAuth metadata and tokens, so the address
	// that it is reached by must be known before it starts.
	url := "http://" + net.JoinHostPort("127.0.0.1", free)
	name := "drawbridge-sandbox-" + free + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	container, err := pool.BuildAndRunWithBuildOptions(
		&dockertest.BuildOptions{ContextDir: folder, Dockerfile: "Dockerfile"},
		&dockertest.RunOptions{
			Name: name, Cmd: append([]string{"--json", "--addr", "0.0.0.0:8080", "--base-url", url}, args...),
			ExposedPorts: []string{port},
			PortBindings: map[engine.Port][]engine.PortBinding{port: {{HostIP: "127.0.0.1", HostPort: free}}},
		},
		func(h *engine.HostConfig) { h.ReadonlyRootfs, h.CapDrop = true, []string{"ALL"} })
	if err != nil {
		// Whatever was made of the two carries the name.
		_ = pool.RemoveContainerByName(name)
		_ = pool.Client.RemoveImageExtended(name, engine.RemoveImageOptions{Force: true})
		return nil, fmt.Errorf("docker: the container does not start: %w", err)
	}
	o := &Org{Digest: container.Container.Image}
	o.close = func() error {
		return errors.Join(pool.Purge(container), pool.Client.RemoveImageExtended(o.Digest, engine.RemoveImageOptions{Force: true}))
	}
	if err := o.wait(ctx, url, func(ctx context.Context, w io.Writer) error {
		return pool.Client.Logs(engine.LogsOptions{Context: ctx, Container: container.Container.ID, OutputStream: w, ErrorStream: io.Discard, Stdout: true, Follow: true})
	}); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// image lays out what the engine builds from.
func image(folder, binary string) error {
	raw, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "sandboxorg"), raw, 0o755),
		os.WriteFile(filepath.Join(folder, "Dockerfile"), []byte(dockerfile), 0o644))
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, p, err := net.SplitHostPort(l.Addr().String())
	return p, err
}

// wait reads the ready line out of the container's log and asks the organisation
// once from outside: a port that is published accepts before anyone listens.
func (o *Org) wait(ctx context.Context, url string, follow func(context.Context, io.Writer) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.CloseWithError(errors.Join(follow(ctx, w), io.ErrUnexpectedEOF))
	}()
	defer func() {
		cancel()
		r.Close()
		<-ended
	}()
	var err error
	if o.Ready, err = readReady(r); err != nil {
		return err
	}
	if o.Ready.URL != url {
		return fmt.Errorf("docker: the organisation calls itself by another address")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/.well-known/oauth-authorization-server", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("docker: the organisation can't be reached: %w", errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
