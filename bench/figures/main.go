// Command figures reads the output of go test and repeats it, then prints every
// figure once more, each on a line that begins with "figure:": those that a test
// printed, and the metrics of each benchmark. It fails when there is none.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := figures(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func figures(in io.Reader, out io.Writer) error {
	var lines []string
	failed := false
	s := bufio.NewScanner(in)
	for s.Scan() {
		line := s.Text()
		fmt.Fprintln(out, line)
		failed = failed || strings.HasPrefix(line, "FAIL") || strings.HasPrefix(line, "--- FAIL")
		if i := strings.Index(line, "figure:"); i >= 0 {
			lines = append(lines, line[i:])
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		text := "figure: " + strings.TrimPrefix(fields[0], "Benchmark")
		for i := 2; i+1 < len(fields); i += 2 {
			text += fmt.Sprintf("  %s %s", fields[i], fields[i+1])
		}
		lines = append(lines, text)
	}
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	switch {
	case s.Err() != nil:
		return s.Err()
	case failed:
		return errors.New("something failed")
	case len(lines) == 0:
		return errors.New("there is no figure")
	}
	return nil
}
