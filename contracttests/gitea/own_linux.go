package gitea

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// guard puts the server and its git commands in a group of their own and has the kernel
// end the server when the thread that started it ends, which it also does when a test
// times out or is killed and nobody calls Close.
func guard(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// pin keeps the starting thread for the calling goroutine: the kernel's death signal is
// tied to the thread and not to the process.
func pin() { runtime.LockOSThread() }

func unpin() { runtime.UnlockOSThread() }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
