//go:build !unix

package main

import "errors"

func (p *process) pause() error {
	return errors.New("this system does not stop a process and let it go on, as SIGSTOP and SIGCONT do elsewhere")
}

func (p *process) resume() error { return nil }
