package supervise

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrSystem says that programs cannot be supervised on this system: on Linux they can be, and with
// less certainty on macOS and the BSDs.
var ErrSystem = errors.New("supervise: this system has no way to stop a program with all its descendants: use Linux, macOS or a BSD")

// ErrGuard says that the guard has ended before its program, because something has killed it.
// The program was killed with it (on Linux), but something of it may still run: leave the lock
// to its TTL, by Abandon.
var ErrGuard = errors.New("supervise: the guard of the program was killed")

// A Program is what to run. It gets stdin, stdout and stderr of this process, and other descriptors
// that are not close-on-exec.
type Program struct {
	Path string   // of the executable: exec.LookPath finds it
	Args []string // with what it is called as the first
	Env  []string // nil: that of this process
}

// Options say how to run a program.
type Options struct {
	TTL    time.Duration  // of the lease: no default
	Grace  time.Duration  // from the signal to SIGKILL; see [Fits]
	Signal syscall.Signal // that asks the program to end; 0: SIGTERM

	// Report lets the program run on when the lease ends. It is for programs whose store refuses
	// late writes, by the fence.
	Report bool

	// Foreground leaves the program in the process group of this process, for it is that of a
	// terminal: see [InForeground]. What the terminal sends comes to both.
	Foreground bool

	// Alone says that this process has no children but what Run starts. Then it adopts what a
	// killed guard leaves behind, and kills that as well (on Linux).
	Alone bool

	// Signals are passed on to the program: see [Notify]. HUP, INT, QUIT or TERM that come before
	// the program was started keep it from being started. TERM stops it as the end of ctx does, and
	// so does a second HUP or INT within 5s, but not an INT of the terminal (Foreground).
	Signals <-chan os.Signal

	// File is rewritten at each renewal, for [Left]; nil: none.
	File *LeaseFile

	// Events is told what happens, in order, and should return soon. nil: nobody is.
	Events func(Event)
}

// An Event is a thing that has happened to a program or its lease.
type Event struct {
	What     What
	Deadline time.Time // of the lease, by the wall clock
	Pid      int       // of [Started]
	Err      error     // of [Unwritten]
}

// What has happened.
type What string

// What happens to a program.
const (
	Started   What = "started"   // the program runs
	Extended  What = "extended"  // the lease was
	Remaining What = "remaining" // the program has ended, and descendants of it run on
	Stopping  What = "stopping"  // the program was asked to end
	Killed    What = "killed"    // SIGKILL was sent to what still ran
	Lost      What = "lost"      // the lease has ended, or is about to, before the program
	Unwritten What = "unwritten" // the lease file could not be written: what it says is older
)

// A Result is how a program has ended.
type Result struct {
	Started bool           // otherwise nothing was run
	Code    int            // its exit code, or 128 + Signal
	Signal  syscall.Signal // what killed it, or kept it from being started; 0: nothing
	Lost    bool           // the lease ended first, or was about to: the program was stopped, but for Report
}

// Run runs a program until it and all its descendants have ended. It stops them before the lease
// does, or when ctx ends: first by Options.Signal, and after the grace by SIGKILL. The lease is to
// be renewed by whoever has made it. When Run returns without [ErrGuard] nothing runs any more, and
// the lock may be released.
//
// The error is a [redlock.OptionError], an [os.PathError] if the program cannot be executed or the
// lease file not be written, [ErrGuard], [ErrSystem], or the system's own if there is no guard.
func Run(ctx context.Context, lease Lease, p Program, o Options) (Result, error) {
	if err := Fits(o.TTL, o.Grace); err != nil {
		return Result{}, err
	}
	if o.Signal == 0 {
		o.Signal = syscall.SIGTERM
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	return run(ctx, lease, p, o)
}
