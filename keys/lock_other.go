//go:build !unix || solaris || aix

package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// lockFile takes the lock by creating the file. Changes take milliseconds and
// are made by people, so a file that stays was left by a crash; a person is
// asked to remove it rather than risk two holders.
func lockFile(name string) (unlock func(), err error) {
	for range 100 {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err == nil {
			f.Close()
			return func() { os.Remove(name) }, nil
		}
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("%s is still there after 10 seconds: remove it if no other process runs", name)
}
