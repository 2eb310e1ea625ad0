package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

const childVariable = "DRAWBRIDGE_CRASH_CHILD"

// order is what a child process is told to do.
type order struct {
	place
	Title string     `json:"title,omitempty"` // one create that dies at Die
	Die   string     `json:"die,omitempty"`
	Storm *stormPart `json:"storm,omitempty"`
	Same  int        `json:"same,omitempty"` // so many identical calls at once
}

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		// Nearly all the time is waiting: for children, leases and settle times.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		goleak.VerifyTestMain(m)
		return
	}
	if err := child(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx := context.Background()
	h, err := open(ctx, o.place, func(point string) {
		if point == o.Die {
			die()
		}
	})
	if err != nil {
		return err
	}
	defer h.close()
	switch {
	case o.Storm != nil:
		return o.Storm.run(ctx, h)
	case o.Same > 0:
		return same(ctx, h, o)
	}
	asked := h.create(ctx, o.Title)
	if asked.Pending == nil {
		return fmt.Errorf("the first call: %s %+v", asked.Status, asked.Error)
	}
	if err := h.approve(ctx, asked.Pending.Approval); err != nil {
		return err
	}
	if o.Die == "approve:after" {
		die()
	}
	done := h.create(ctx, o.Title)
	return fmt.Errorf("the process survived %q: %s %+v", o.Die, done.Status, done.Error)
}

// die is SIGKILL: no deferred function, no buffer and no goodbye.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// start runs this binary again as a child. What it prints is for the test.
func start(t *testing.T, o order) (cmd *exec.Cmd, out *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out = new(bytes.Buffer)
	cmd = exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(raw))
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}
