package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

// Variable makes a test that runs the kit serve these pages instead: its value is
// the address to listen on. Only drawbridge dev sets it, and holds the test's
// standard input open for as long as the pages are wanted.
const Variable = "DRAWBRIDGE_DEV"

const greetingPrefix = "drawbridge dev: "

// ServeForParent serves for a parent process: it greets on out, and ends when in
// ends. An interrupt is the parent's to act on, since a terminal sends it to both.
func ServeForParent(ctx context.Context, b Bench, address string, in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, in) // an error is an end, too
	}()
	return Serve(ctx, b, address, func(g Greeting) {
		raw, _ := json.Marshal(g) // two texts
		fmt.Fprintf(out, "%s%s\n", greetingPrefix, raw)
	})
}

// ParseGreeting reads the line by which a child says that it serves; false: it is
// another line.
func ParseGreeting(line string) (g Greeting, ok bool) {
	raw, ok := strings.CutPrefix(line, greetingPrefix)
	return g, ok && json.Unmarshal([]byte(raw), &g) == nil
}
