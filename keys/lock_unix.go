//go:build unix && !solaris && !aix

package keys

import (
	"errors"
	"os"
	"syscall"
)

// lockFile waits for and takes the lock of that name, which its holder's death
// frees. It excludes other goroutines as well as other processes.
func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
