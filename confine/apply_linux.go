package confine

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	"github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Execute is in none of these: no program can be started, from anywhere.
const (
	readFile   = syscall.AccessFSReadFile
	readFolder = readFile | syscall.AccessFSReadDir
	write      = readFolder | syscall.AccessFSWriteFile | syscall.AccessFSTruncate | syscall.AccessFSMakeReg | syscall.AccessFSMakeDir |
		syscall.AccessFSRemoveFile | syscall.AccessFSRemoveDir | syscall.AccessFSRefer
)

// Apply confines all threads of the process, for good. Where the kernel can't, or can
// do a part only, that is no error: Held says what there is. An error means that the
// rules make no sense, or that the kernel refused; then nothing has changed.
func Apply(r Rules) (Held, error) {
	version, err := syscall.LandlockGetABIVersion()
	if err != nil || version < 1 {
		return Held{}, nil
	}
	var rules []landlock.Rule
	for _, path := range r.Read {
		info, err := os.Stat(path)
		if err != nil {
			continue // absent, or not ours to read anyway
		}
		rights := landlock.AccessFSSet(readFile)
		if info.IsDir() {
			rights = readFolder
		}
		rules = append(rules, landlock.PathAccess(rights, path).IgnoreIfMissing())
	}
	for _, path := range r.Write {
		rules = append(rules, landlock.PathAccess(write, path))
	}
	for _, port := range r.Connect {
		rules = append(rules, landlock.ConnectTCP(port))
	}
	// Versions after the seventh hold back UDP, which name resolution needs, and
	// sockets in the file system, which a local PostgreSQL may listen on.
	if err := landlock.V7.BestEffort().Restrict(rules...); err != nil {
		return Held{}, fmt.Errorf("confine: %w", err)
	}
	return Held{Files: true, Ports: version >= 4}, nil
}
