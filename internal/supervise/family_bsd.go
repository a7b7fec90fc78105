//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"os"
	"os/signal"
	"syscall"
)

// adopt has nothing to call here.
func adopt() error { return nil }

// Reap has nothing to do here: nobody leaves this process children.
func Reap() (stop func()) { return func() {} }

// killBelow cannot find what runs below this process here.
func killBelow() {}

// hurry puts this process before others that want to run, if it may.
func hurry() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, -20) }

// ownSignals are none here.
func ownSignals() []syscall.Signal { return nil }

// ignored tells which signals this process ignores, as far as Go knows.
func ignored() func(syscall.Signal) bool {
	return func(s syscall.Signal) bool { return signal.Ignored(s) }
}

// A family is a program and what is in its process group. The group is led by this process, so
// that its number stays ours when the program has been reaped.
type family struct {
	leader  int
	own     bool // the group is ours
	ending  chan syscall.WaitStatus
	changed chan struct{}
	status  syscall.WaitStatus
	ended   bool
}

// start starts a program, which joins a group or, if that is 0, that of this process.
func start(path string, argv []string, group int) (*family, error) {
	f := &family{own: group == 0, ending: make(chan syscall.WaitStatus, 1), changed: make(chan struct{}, 1)}
	var err error
	f.leader, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{ //nolint:gosec // to run what the user names is what this is for
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: !f.own, Pgid: group},
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// tend reaps the program.
func (f *family) tend() {
	f.ending <- reaped(f.leader)
	f.changed <- struct{}{}
}

// signal signals the program, with its group if that is ours: this process hears no signal.
func (f *family) signal(signals ...syscall.Signal) {
	for _, s := range signals {
		switch {
		case f.own:
			_ = syscall.Kill(0, s)
		case !f.ended:
			_ = syscall.Kill(f.leader, s)
		}
	}
}

// kill kills the program. The rest of its group follows in sweep.
func (f *family) kill() {
	if !f.ended {
		_ = syscall.Kill(f.leader, syscall.SIGKILL)
	}
}

func (f *family) halted() bool { return false }

func (f *family) over() (gone, leader bool) {
	select {
	case f.status = <-f.ending:
		f.ended = true
	default:
	}
	return f.ended, f.ended
}

func (f *family) bury() notice { return ended(f.status) }

// sweep kills what is left of the group, with this process.
func (f *family) sweep() {
	if f.own {
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
}
