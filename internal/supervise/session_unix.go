//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"context"
	"encoding/json"
	"errors"
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
	asked    time.Duration // when HUP or INT came last
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
	enlisted()
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
	plan := &plan{Grace: s.Grace, Margin: Margin(s.TTL), Stop: s.Signal, Report: s.Report, Lease: s.File.Name()}
	if s.Foreground {
		plan.Group = syscall.Getpgrp()
	}
	s.order(order{Plan: plan, Deadline: s.deadline})
	return true
}

// order tells the guard. One that is stopped does not read: the pipe has room for as much as
// comes until the deadline.
func (s *session) order(o order) {
	line, _ := json.Marshal(o) // there is nothing in it that JSON does not know
	_ = s.orders.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = s.orders.Write(append(line, '\n')) // one that is gone has closed its notices
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
			if by, _ := sig.(syscall.Signal); ok {
				s.pass(by)
			} else {
				signals = nil
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

// pass passes a signal on. TERM is an order to stop: whoever sends it to this process sends KILL
// next, and the key would not be released. So is a second HUP or INT soon after the first, but not
// the INT of a terminal: programs that talk to a user take each for the end of a line only.
func (s *session) pass(by syscall.Signal) {
	o := order{Signal: by, Stop: by == syscall.SIGTERM}
	if by == syscall.SIGHUP || by == syscall.SIGINT {
		before := s.asked
		s.asked = now()
		o.Stop = before != 0 && s.asked-before < insists
	}
	if s.Foreground && fromTerminal(by) { // the program has it already
		o.Signal, o.Stop = syscall.SIGCONT, o.Stop && by != syscall.SIGINT
		if !Ends(by) {
			return
		}
	}
	s.order(o)
}

// insists is the time in which a second signal says that the first was of no use.
const insists = 5 * time.Second

// heed takes a notice, and reports whether it was the last.
func (s *session) heed(n notice) (over bool, err error) {
	switch n.What {
	case Started:
		s.result.Started = true
	case Stopping:
		s.stopping = true
		s.File.Remove()
	case Killed:
		s.killing = true
	case noticeHalted:
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) // until the shell lets both go on
		return false, nil
	case noticeLate:
		s.lost()
		return true, nil
	case noticeRefused:
		return true, &os.PathError{Op: "exec", Path: s.program.Path, Err: n.Errno}
	case noticeEnded:
		s.result.Code, s.result.Signal = n.Code, n.By
		return true, nil
	}
	s.tell(Event{What: n.What, Pid: n.Pid})
	if n.Lost {
		s.lost()
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
		for err := error(nil); !errors.Is(err, syscall.ECHILD); _, err = syscall.Wait4(-1, nil, 0, nil) {
			killBelow()
			for more := true; more; {
				pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				more = pid > 0
			}
		}
	}
	s.result.Lost = true
	return s.result, ErrGuard
}
