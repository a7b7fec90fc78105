//go:build unix

package main

import (
	"errors"
	"fmt"
	"syscall"
)

// pause stops the process, and returns when it stands still.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case !status.Stopped():
			return fmt.Errorf("the %s has ended where it was to be stopped", p.name)
		default:
			return nil
		}
	}
}

// resume lets a process that is stopped go on.
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
