package docker

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/drawbridge-dev/drawbridge/contracttests/sandbox"
)

const command = "github.com/drawbridge-dev/drawbridge/contracttests/sandbox/cmd/sandboxorg"

// Build compiles the organisation into a folder, without anything of the
// machine in it, and returns the binary's path.
func Build(ctx context.Context, folder string) (string, error) {
	binary := filepath.Join(folder, "sandboxorg")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, command)
	// A container runs Linux, wherever the engine's client is.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("docker: the sandbox does not build: %w\n%s", err, out)
	}
	return binary, nil
}

// Process runs a binary of Build as a child of this process.
func Process(ctx context.Context, binary string, args ...string) (*Org, error) {
	raw, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	cmd := exec.CommandContext(ctx, binary, append([]string{"--json"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	o := &Org{Digest: "sha256:" + hex.EncodeToString(sum[:])}
	o.close = func() error {
		return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	}
	if o.Ready, err = readReady(out); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func readReady(r io.Reader) (ready sandbox.Ready, err error) {
	line, err := bufio.NewReader(r).ReadBytes('\n')
	if err != nil {
		return ready, fmt.Errorf("docker: the organisation ended before it was ready: %w", err)
	}
	return ready, json.Unmarshal(line, &ready)
}
