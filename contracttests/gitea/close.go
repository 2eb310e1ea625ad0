package gitea

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Close ends the server and what it started, waits, and removes the folder that Start
// made. It fails if the server had to be killed or had ended before. Further calls return
// the same.
func (s *Server) Close() error {
	s.close.Do(func() {
		s.client.CloseIdleConnections()
		if s.cmd != nil {
			s.failed = s.terminate()
		}
		if s.remove {
			s.failed = errors.Join(s.failed, os.RemoveAll(s.Dir))
		}
	})
	return s.failed
}

// abandon kills a server that a stranger answers for.
func (s *Server) abandon() {
	if s.cmd == nil {
		return
	}
	killGroup(s.cmd.Process)
	<-s.exited
	s.cmd = nil
}

func (s *Server) terminate() error {
	defer killGroup(s.cmd.Process) // git commands that the server left behind
	select {
	case <-s.exited:
		return fmt.Errorf("gitea: server ended before Close: %v%s", s.exit, s.lastWords())
	default:
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	grace := time.NewTimer(s.grace)
	defer grace.Stop()
	select {
	case <-s.exited:
		return nil
	case <-grace.C:
		killGroup(s.cmd.Process)
		<-s.exited
		return errors.New("gitea: server did not end by itself")
	}
}

// lastWords returns the end of the log for an error text.
func (s *Server) lastWords() string {
	b, err := os.ReadFile(s.Log)
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "\n" + strings.Join(lines[max(0, len(lines)-8):], "\n")
}
