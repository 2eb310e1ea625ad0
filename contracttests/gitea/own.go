package gitea

import (
	"context"
	"os/exec"
)

// own runs a command to its end. The end of ctx kills it.
func own(ctx context.Context, cmd *exec.Cmd) error {
	begun, ended := make(chan error, 1), make(chan error, 1)
	go func() { ended <- ownUntilExit(cmd, begun) }()
	if err := <-begun; err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		killGroup(cmd.Process)
		<-ended
		return ctx.Err()
	}
}

// ownUntilExit starts a command, tells begun, and stays with it: on Linux the command ends
// with the thread that this goroutine holds on to.
func ownUntilExit(cmd *exec.Cmd, begun chan<- error) error {
	pin()
	defer unpin()
	guard(cmd)
	err := cmd.Start()
	begun <- err
	if err != nil {
		return err
	}
	return cmd.Wait()
}
