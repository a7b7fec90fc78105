package supervise

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// From linux/prctl.h, linux/wait.h and linux/sched.h.
const (
	setChildSubreaper = 36
	byPid             = 1
	schedOther        = 0
	schedRR           = 2
)

// adopt makes this process the parent of what its descendants leave behind.
func adopt() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("prctl: become a subreaper: %w", errno)
	}
	// The first handle of a process tries whether the kernel has them, by a child of its own: now,
	// for at a deadline there may be no room for one.
	guards.Lock() // Reap would take that child
	defer guards.Unlock()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Release()
	}
	return err
}

// Reap reaps the children that this process inherits, as the first process of a container or after
// a Run with Options.Alone, until stop is called. What Run starts it leaves to Run. Other children may
// not be started meanwhile: it could not tell them apart.
func Reap() (stop func()) {
	ended, stopped, over := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		defer close(over)
		for {
			inherit()
			select {
			case <-ended:
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(stopped)
		<-over
	}
}

// inherit reaps those that have ended.
func inherit() {
	guards.Lock() // nobody starts one meanwhile whose number is not yet known
	defer guards.Unlock()
	for _, pid := range children() {
		if !guards.pids[pid] {
			reap(pid)
		}
	}
}

// hurry puts this process before others that want to run, if it may: on a busy machine some tens of
// milliseconds may decide. Threads have priorities of their own. A nice value does not reach beyond
// a session where the kernel groups by these, so a real-time policy is asked for besides: this
// process sleeps but for the few milliseconds in which it kills. Under that policy threads take turns:
// one of the Go runtime that spins until another has run would otherwise keep that from running, for
// ever where each processor has such a one.
func hurry() {
	for _, thread := range names("/proc/self/task") {
		if id, err := strconv.Atoi(thread); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, -20) // only root may
			schedule(id, schedRR, 1)                               // likewise; 1 is the least
		}
	}
}

// calm gives the thread of the caller, which keeps it, the policy of others again. A reaped process takes
// its entries in /proc along, and the kernel spins while somebody else removes one of them: if that is an
// ordinary thread, on the processor on which one with a real-time policy spins, for up to a second.
func calm() {
	runtime.LockOSThread()
	schedule(0, schedOther, 0)
}

func schedule(thread int, policy uintptr, priority int32) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(thread), policy, uintptr(unsafe.Pointer(&priority))) //nolint:gosec // this is how the system call takes its argument
}

// ownSignals are those to pass on that other systems have not.
func ownSignals() []syscall.Signal {
	signals := []syscall.Signal{syscall.SIGPWR}
	for s := syscall.Signal(35); s <= 64; s++ { // Go has the first three real-time signals for itself
		signals = append(signals, s)
	}
	return signals
}

// ignored tells which signals this process ignores, as the kernel says: package signal knows HUP
// and INT alone. The others that Go handles it has taken over when this process began.
func ignored() func(syscall.Signal) bool {
	status, _ := os.ReadFile("/proc/self/status")
	_, mask, found := bytes.Cut(status, []byte("\nSigIgn:\t"))
	mask, _, _ = bytes.Cut(mask, []byte("\n"))
	bits, err := strconv.ParseUint(string(mask), 16, 64)
	return func(s syscall.Signal) bool {
		if !found || err != nil {
			return signal.Ignored(s)
		}
		return bits>>(s-1)&1 != 0
	}
}

// A family is a program and all its descendants, all of which are children of this process, or
// become so when their parents end. Only this process reaps its children, all but the program in one
// goroutine: so the number of a child is the child's until it is reaped here.
type family struct {
	leader  int // the program. It is reaped last, so that its number, and its group's, stay its own.
	leads   bool
	ended   chan os.Signal // when children have ended or stopped
	changed chan struct{}  // after that was looked at
	gone    atomic.Bool    // nothing of the family runs any more
	left    atomic.Bool    // the program itself has ended
}

// start starts a program, which joins a group or, if that is 0, leads one of its own.
func start(path string, argv []string, group int) (*family, error) {
	f := &family{leads: group == 0, ended: make(chan os.Signal, 1), changed: make(chan struct{}, 1)}
	if err := adopt(); err != nil {
		return nil, err
	}
	signal.Notify(f.ended, syscall.SIGCHLD)
	var err error
	f.leader, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{ //nolint:gosec // to run what the user names is what this is for
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL},
	})
	return f, err
}

// signal signals the program, with its group if that is its own. When the program has ended, as one
// does that makes itself a daemon, all that it has left gets the signals.
func (f *family) signal(signals ...syscall.Signal) {
	if waitID(f.leader, syscall.WEXITED|syscall.WNOWAIT) {
		signalBelow(signals...)
		return
	}
	for _, s := range signals {
		_ = syscall.Kill(f.number(), s)
	}
}

// number is what a signal to the program is sent to. It is nobody else's: there is at least the
// leader, if only as a zombie.
func (f *family) number() int {
	if f.leads {
		return -f.leader
	}
	return f.leader
}

// kill kills what runs of the family.
func (f *family) kill() {
	_ = syscall.Kill(f.number(), syscall.SIGKILL) // at once: for most programs that is all
	killBelow()
}

// halted reports whether the program has been stopped since it was asked last.
func (f *family) halted() bool { return waitID(f.leader, syscall.WSTOPPED) }

// tend reaps all but the program until nothing of the family runs any more, beside the thread that kills.
//
// Descendants cannot slip through between two readings of the list: whoever becomes a child
// meanwhile had an ancestor in the list, which either runs, or is reaped here, and then the
// list is read again.
func (f *family) tend() {
	calm()
	for range f.ended {
		left := waitID(f.leader, syscall.WEXITED|syscall.WNOWAIT)
		gone := left
		for reaped := true; reaped; {
			reaped, gone = false, left
			for _, pid := range children() {
				switch {
				case pid == f.leader:
				case reap(pid):
					reaped = true
				default:
					gone = false
				}
			}
		}
		f.left.Store(left)
		f.gone.Store(gone)
		select {
		case f.changed <- struct{}{}:
		default:
		}
		if gone {
			return
		}
	}
}

// over reports whether nothing of the family runs any more, and whether the program itself has ended.
func (f *family) over() (gone, leader bool) {
	return f.gone.Load(), f.left.Load() // in the order against that in which they are set
}

// bury reaps the program, when nothing else is left, and returns how it ended.
func (f *family) bury() notice {
	calm()
	return ended(reaped(f.leader))
}

// sweep has nothing to do: nothing is left.
func (f *family) sweep() {}

// waitID reports whether a child has changed as asked.
func waitID(pid, how int) bool {
	var info [16]uint64 // a siginfo_t; its first number is SIGCHLD, or 0 for no change
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), uintptr(unsafe.Pointer(&info)), uintptr(how|syscall.WNOHANG), 0, 0) //nolint:gosec // this is how the system call takes its result's place
		if errno != syscall.EINTR {
			return errno == 0 && *(*int32)(unsafe.Pointer(&info)) != 0 //nolint:gosec // likewise
		}
	}
}

// reap reaps a child, if it has ended.
func reap(pid int) bool {
	got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	return got == pid && err == nil
}
