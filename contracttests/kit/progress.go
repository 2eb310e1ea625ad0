package kit

import (
	"fmt"
	"os"
	"strings"
)

// ProgressVariable asks a run, by any value, to say on standard error how far it
// has come, one line for each check, which ParseProgress reads.
const ProgressVariable = "DRAWBRIDGE_CONTRACT_PROGRESS"

const progressPrefix = "contract: check "

// A Follower is a T that wants to know how far a run has come.
type Follower interface{ Progress(done, total int) }

func tellProgress(t T, done int) {
	total := len(checks) + 1 // and the leak check
	if f, ok := t.(Follower); ok {
		f.Progress(done, total)
	}
	if os.Getenv(ProgressVariable) != "" {
		fmt.Fprintf(os.Stderr, "%s%d of %d\n", progressPrefix, done, total)
	}
}

// ParseProgress reads a line that ProgressVariable asked for; false: it is
// another line.
func ParseProgress(line string) (done, total int, ok bool) {
	rest, ok := strings.CutPrefix(line, progressPrefix)
	if !ok {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(rest, "%d of %d", &done, &total)
	return done, total, err == nil && n == 2
}
