//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// guardName is the first argument of a guard, which shows in ps.
const guardName = "quorumlock-guard"

// Init makes this process a guard, if [Run] has started it as one; then it does not return. A
// program that calls Run calls Init first of all in main.
func Init() {
	var orders, notices int
	if len(os.Args) < 4 || os.Args[0] != guardName {
		return
	}
	if _, err := fmt.Sscanf(os.Args[1], "%d,%d", &orders, &notices); err != nil {
		return
	}
	// The kernel kills the program when the thread that started it ends: this one does not.
	runtime.LockOSThread()
	for _, fd := range []int{orders, notices} {
		syscall.CloseOnExec(fd)
		_ = syscall.SetNonblock(fd, true) // a read then takes no thread
	}
	g := &guard{
		orders:  decode[order](os.NewFile(uintptr(orders), "orders"), nil),
		notices: os.NewFile(uintptr(notices), "notices"),
		path:    os.Args[2],
		argv:    os.Args[3:],
	}
	g.run()
	os.Exit(0)
}

// A guard starts a program and stops it before the deadline.
type guard struct {
	orders  <-chan order // nil: the renewer is gone
	notices *os.File
	path    string
	argv    []string

	plan     plan
	deadline time.Duration
	alarm    *alarm
	family   *family
	killAt   time.Duration // when the grace is over; 0: nobody has asked the program to end
	again    time.Duration // the pause before SIGKILL is sent again; 0: it was not sent
	againAt  time.Duration // when it is
	left     bool          // it was told that descendants run on
}

func (g *guard) run() {
	first, ok := <-g.orders
	if !ok || first.Plan == nil {
		return
	}
	g.plan, g.deadline = *first.Plan, first.Deadline
	if g.plan.Lease != "" {
		defer func() { removeLease(g.plan.Lease) }()
	}
	deafen()
	runtime.GOMAXPROCS(2)  // one for what is in a hurry, one for what is not
	debug.SetGCPercent(-1) // none while it kills: a reading of /proc takes half a megabyte
	debug.SetMemoryLimit(64 << 20)
	enlist()
	var err error
	if g.alarm, err = newAlarm(); err != nil {
		g.refuse(err)
		return
	}
	if !g.plan.Report && now() >= g.stopAt() {
		g.tell(notice{What: noticeLate})
		return
	}
	if g.family, err = start(g.path, g.argv, g.plan.Group); err != nil {
		g.refuse(err)
		return
	}
	hurry() // after the program was started, which would have the same
	go g.family.tend()
	g.tell(notice{What: Started, Pid: g.family.leader})
	g.watch()
	ended := g.family.bury()
	removeLease(g.plan.Lease)
	g.tell(ended)
	g.family.sweep()
}

func (g *guard) refuse(err error) {
	refused := notice{What: noticeRefused}
	_ = errors.As(err, &refused.Errno)
	g.tell(refused)
}

// watch returns when nothing of the program runs any more.
func (g *guard) watch() {
	for g.act(); !g.over(); g.act() {
		g.alarm.set(g.next())
		select {
		case o, ok := <-g.orders:
			if ok {
				g.obey(o)
			} else {
				g.orders = nil
				g.orphaned()
			}
		case <-g.alarm.rings:
		case <-g.family.changed:
		}
	}
}

// over reports whether nothing of the program runs any more.
func (g *guard) over() bool {
	if g.family.halted() && g.plan.Group != 0 && g.killAt == 0 { // one that is to end stops nobody else
		g.tell(notice{What: noticeHalted})
	}
	gone, leader := g.family.over()
	if leader && !gone && !g.left {
		g.left = true
		g.tell(notice{What: Remaining})
	}
	return gone
}

func (g *guard) obey(o order) {
	g.deadline = max(g.deadline, o.Deadline)
	switch {
	case o.Stop && g.killAt == 0:
		g.stop(false)
	case Ends(o.Signal):
		g.family.signal(o.Signal, syscall.SIGCONT) // what is stopped does not hear of it
	case o.Signal != 0:
		g.family.signal(o.Signal)
	}
}

// orphaned is what happens when the renewer is gone: the lease will end.
func (g *guard) orphaned() {
	if !g.plan.Report {
		g.stop(false)
	}
}

// stopAt is when the program has to be asked to end.
func (g *guard) stopAt() time.Duration { return g.deadline - g.plan.Grace - g.plan.Margin }

// act does what is due.
func (g *guard) act() {
	at := now()
	if !g.plan.Report && at >= g.stopAt() {
		g.stop(true)
	}
	if g.killAt != 0 && at >= max(g.killAt, g.againAt) {
		g.kill()
	}
}

// next is when something will be due; 0: never.
func (g *guard) next() time.Duration {
	switch {
	case g.again != 0:
		return g.againAt
	case g.killAt != 0:
		return g.killAt
	case g.plan.Report:
		return 0
	}
	return g.stopAt()
}

// stop asks the program to end. Once it was asked, no later deadline takes that back.
func (g *guard) stop(lost bool) {
	if g.killAt != 0 {
		return
	}
	g.killAt = now() + g.plan.Grace
	if !g.plan.Report {
		g.killAt = min(g.killAt, g.deadline-g.plan.Margin)
	}
	g.tell(notice{What: Stopping, Lost: lost})
	removeLease(g.plan.Lease)
	g.family.signal(g.plan.Stop, syscall.SIGCONT)
}

// kill kills whatever runs, and is called again until nothing does: not at each end of a process, and
// with pauses of ten times what it took, for that is time that other guards need, and those that it has
// killed, to end.
func (g *guard) kill() {
	began := now()
	g.family.kill()
	if g.again == 0 {
		g.again = time.Millisecond
		g.tell(notice{What: Killed})
	}
	at := now()
	g.again = min(max(2*g.again, 10*(at-began)), longestAgain)
	g.againAt = at + g.again
}

// longestAgain is the pause where a process does not die, as long as it waits for a disk.
const longestAgain = 250 * time.Millisecond

// tell tells the renewer, who may be gone, or stopped: then what it does not read waits.
func (g *guard) tell(n notice) {
	line, _ := json.Marshal(n) // there is nothing in it that JSON does not know
	_, _ = g.notices.Write(append(line, '\n'))
}

// ended is how a program has ended.
func ended(status syscall.WaitStatus) notice {
	if status.Signaled() {
		return notice{What: noticeEnded, Code: 128 + int(status.Signal()), By: status.Signal()}
	}
	return notice{What: noticeEnded, Code: status.ExitStatus()}
}

// deafen keeps signals from this process. They are not ignored, for what is ignored the program
// would ignore, too; but what was ignored before stays so.
func deafen() {
	ignored := make(chan os.Signal, 1)
	listen(ignored, append(passed(), syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU))
}
