//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A session is the renewer's side of one program.
type session struct {
	Options
	lease   Lease
	program Program

	guard    int // its process
	orders   *os.File
	notices  <-chan notice
	deadline time.Duration // as the guard knows it
	stopping bool
	killing  bool
	result   Result
}

func run(ctx context.Context, lease Lease, p Program, o Options) (Result, error) {
	s := &session{Options: o, lease: lease, program: p}
	if o.Alone {
		if err := adopt(); err != nil {
			return Result{}, err
		}
	}
	defer o.File.Remove()
	s.deadline = deadline(lease)
	if err := o.File.write(s.deadline); err != nil {
		return Result{}, err
	}
	ending, end, err := s.launch()
	if err != nil {
		return Result{}, err
	}
	defer end()
	if !s.begin() {
		return s.result, nil
	}
	return s.follow(ctx, ending)
}

// launch starts the guard. ending is closed when it has ended; end ends it.
func (s *session) launch() (ending <-chan struct{}, end func(), err error) {
	ordersFrom, orders, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = ordersFrom.Close() }()
	noticesFrom, notices, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return nil, nil, err
	}
	defer func() { _ = notices.Close() }()
	s.guard, err = fork(s.program, ordersFrom, notices)
	if err != nil {
		_, _ = orders.Close(), noticesFrom.Close()
		return nil, nil, fmt.Errorf("supervise: start the guard: %w", err)
	}
	s.orders = orders
	gone, stop := make(chan struct{}), make(chan struct{})
	s.notices = decode[notice](noticesFrom, stop)
	go func() {
		defer close(gone)
		for {
			if _, err := syscall.Wait4(s.guard, nil, 0, nil); err != syscall.EINTR {
				return
			}
		}
	}()
	return gone, func() {
		_ = orders.Close()
		<-gone
		close(stop)
		_ = noticesFrom.Close()
	}, nil
}

// fork starts the guard with its ends of the pipes behind the descriptors that the program is
// to inherit.
func fork(p Program, orders, notices *os.File) (pid int, err error) {
	self, err := executable()
	if err != nil {
		return 0, err
	}
	files := []uintptr{0, 1, 2}
	for fd := range inheritable {
		if flags, err := fcntl(fd, syscall.F_GETFD); err == nil && flags&syscall.FD_CLOEXEC == 0 {
			for uintptr(len(files)) < fd {
				files = append(files, ^uintptr(0))
			}
			files = append(files[:fd], fd)
		}
	}
	argv := append([]string{guardName, fmt.Sprintf("%d,%d", len(files), len(files)+1), p.Path}, p.Args...)
	env := p.Env
	if env == nil {
		env = os.Environ()
	}
	return syscall.ForkExec(self, argv, &syscall.ProcAttr{ //nolint:gosec // it is this program
		Env:   env,
		Files: append(files, orders.Fd(), notices.Fd()),
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // what is sent to our group is not for the guard
	})
}

// inheritable is a bound of the descriptors that a shell may have opened for the program.
const inheritable uintptr = 64

func fcntl(fd uintptr, what int) (int, error) {
	value, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, uintptr(what), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(value), nil
}

// begin orders the start of the program, unless a signal to end was there before.
func (s *session) begin() bool {
	for pending := true; pending; {
		select {
		case sig, ok := <-s.Signals:
			if by, _ := sig.(syscall.Signal); ok && Ends(by) {
				s.result.Signal, s.result.Code = by, 128+int(by)
				return false
			}
			pending = ok
		default:
			pending = false
		}
	}
	plan := &plan{Grace: s.Grace, Margin: Margin(s.TTL), Stop: s.Signal, Report: s.Report, Lease: s.File.path()}
	if s.Foreground {
		plan.Group = syscall.Getpgrp()
	}
	s.order(order{Plan: plan, Deadline: s.deadline})
	return true
}

// order tells the guard. One that is stopped does not read: the pipe has room for as much as
// comes until the deadline.
func (s *session) order(o order) {
	if line, err := json.Marshal(o); err == nil {
		_ = s.orders.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = s.orders.Write(append(line, '\n')) // one that is gone has closed its notices
	}
}

// follow passes orders and notices on until the guard has ended.
func (s *session) follow(ctx context.Context, ending <-chan struct{}) (Result, error) {
	signals, done := s.Signals, ctx.Done()
	if s.Foreground { // this process stops when the program has stopped
		halts := make(chan os.Signal, 1)
		signal.Notify(halts, syscall.SIGTSTP)
		defer signal.Stop(halts)
	}
	timer := time.NewTimer(s.pause())
	defer timer.Stop()
	for {
		select {
		case n, ok := <-s.notices:
			if !ok {
				<-ending
				return s.orphaned()
			}
			if over, err := s.heed(n); over {
				<-ending
				return s.result, err
			}
		case sig, ok := <-signals:
			by, _ := sig.(syscall.Signal)
			switch {
			case !ok:
				signals = nil
			case s.Foreground && fromTerminal(by): // the program has it already
			default:
				s.order(order{Signal: by})
			}
		case <-done:
			done = nil
			s.order(order{Stop: true})
		case <-timer.C:
			s.refresh()
			timer.Reset(s.pause())
		}
	}
}

// heed takes a notice, and reports whether it was the last.
func (s *session) heed(n notice) (over bool, err error) {
	switch n.What {
	case noticeStarted:
		s.result.Started = true
		s.tell(Event{What: Started, Pid: n.Pid})
	case noticeLeft:
		s.tell(Event{What: Remaining})
	case noticeHalted:
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // until the shell lets both go on
	case noticeStopping:
		s.stopping = true
		s.File.Remove()
		s.tell(Event{What: Stopping})
		if n.Lost {
			s.lost()
		}
	case noticeKilled:
		s.killing = true
		s.tell(Event{What: Killed})
	case noticeLate:
		s.lost()
		return true, nil
	case noticeRefused:
		return true, &os.PathError{Op: "exec", Path: s.program.Path, Err: n.Errno}
	case noticeEnded:
		s.result.Code, s.result.Signal = n.Code, n.By
		return true, nil
	}
	return false, nil
}

// refresh reads the lease, and tells the guard its deadline.
func (s *session) refresh() {
	at := deadline(s.lease)
	if at > s.deadline+time.Millisecond { // less is the time between two readings
		s.deadline = at
		s.order(order{Deadline: at})
		if err := s.File.write(at); err != nil && !s.stopping {
			s.tell(Event{What: Unwritten, Err: err})
		}
		s.tell(Event{What: Extended})
		return
	}
	left := s.deadline - now()
	switch {
	case s.Report:
		if left <= 0 {
			s.lost()
		}
	case left <= Margin(s.TTL)/2 && !s.killing:
		s.lost()
		_ = syscall.Kill(s.guard, syscall.SIGKILL) // it is stopped, or hangs; the kernel kills the program
	case at <= now() && !s.result.Lost: // somebody has released it
		s.lost()
		s.order(order{Stop: true})
	}
}

// pause is the time until the lease is read again: soon, if something is about to happen.
func (s *session) pause() time.Duration {
	left := s.deadline - now()
	switch {
	case s.Report && s.result.Lost:
		return s.TTL / 16
	case s.stopping:
		left -= Margin(s.TTL) / 2
	case !s.Report:
		left -= s.Grace + Margin(s.TTL)
	}
	return min(max(left/2, shortestPause), s.TTL/16)
}

const shortestPause = 5 * time.Millisecond

func (s *session) lost() {
	if !s.result.Lost {
		s.result.Lost = true
		s.File.Remove()
		s.tell(Event{What: Lost})
	}
}

func (s *session) tell(e Event) {
	e.Deadline = wall(s.deadline)
	s.Events(e)
}

// orphaned is the end of a session whose guard was killed.
func (s *session) orphaned() (Result, error) {
	if s.Alone {
		killChildren()
		for {
			if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
				break
			}
			killChildren()
		}
	}
	s.result.Lost = true
	return s.result, ErrGuard
}
