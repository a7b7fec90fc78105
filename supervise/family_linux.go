package supervise

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"
)

// From linux/prctl.h, linux/wait.h and linux/sched.h.
const (
	setChildSubreaper = 36
	byPid             = 1
	schedFIFO         = 1
)

// adopt makes this process the parent of what its descendants leave behind.
func adopt() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("prctl: become a subreaper: %w", errno)
	}
	return nil
}

// hurry puts this process before others that want to run, if it may: on a busy machine some
// tens of milliseconds may decide. Threads have priorities of their own. A nice value does not reach
// beyond a session where the kernel groups by these, so a real-time policy is asked for besides:
// this process sleeps but for the few milliseconds in which it kills.
func hurry() {
	threads, _ := filepath.Glob("/proc/self/task/*")
	least := int32(1) // of the priorities under that policy
	for _, thread := range threads {
		if id, err := strconv.Atoi(filepath.Base(thread)); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, -20)                                                                // only root may
			_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(id), schedFIFO, uintptr(unsafe.Pointer(&least))) //nolint:gosec // likewise; this is how the system call takes its argument
		}
	}
}

// A family is a program and all its descendants, all of which are children of this process, or
// become so when their parents end. Only this process reaps its children, in one goroutine: so
// the number of a child is the child's until it is reaped here.
type family struct {
	leader  int // the program. It is reaped last, so that its number, and its group's, stay its own.
	leads   bool
	changed chan os.Signal
}

// start starts a program, which joins a group or, if that is 0, leads one of its own.
func start(path string, argv []string, group int) (*family, error) {
	f := &family{leads: group == 0, changed: make(chan os.Signal, 1)}
	if err := adopt(); err != nil {
		return nil, err
	}
	signal.Notify(f.changed, syscall.SIGCHLD)
	var err error
	f.leader, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{ //nolint:gosec // to run what the user names is what this is for
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL},
	})
	return f, err
}

// signal signals the program, with its group if that is its own.
func (f *family) signal(s syscall.Signal) {
	pid := f.leader
	if f.leads {
		pid = -pid
	}
	_ = syscall.Kill(pid, s) // there is at least the leader, if only as a zombie
}

// kill kills what runs of the family. Whoever was not yet a child is one the next time.
func (f *family) kill() {
	f.signal(syscall.SIGKILL)
	killChildren()
}

func killChildren() {
	for _, pid := range children() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be a zombie
	}
}

// halted reports whether the program has been stopped since it was asked last.
func (f *family) halted() bool { return waitID(f.leader, syscall.WSTOPPED) }

// over reports whether nothing of the family runs any more, and whether the program itself has
// ended. It reaps all but the program.
//
// Descendants cannot slip through between two readings of the list: whoever becomes a child
// meanwhile had an ancestor in the list, which either runs, or is reaped here, and then the
// list is read again.
func (f *family) over() (gone, leader bool) {
	leader = waitID(f.leader, syscall.WEXITED|syscall.WNOWAIT)
	for reaped := true; reaped; {
		reaped, gone = false, leader
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
	return gone, leader
}

// bury reaps the program, when nothing else is left, and returns how it ended.
func (f *family) bury() notice {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(f.leader, &status, 0, nil); err != syscall.EINTR {
			return ended(status)
		}
	}
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

// children are the children of this process, those that have ended and were not reaped as well.
func children() (pids []int) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	if len(lists) == 0 { // the kernel was built without CONFIG_PROC_CHILDREN
		return search()
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) //nolint:gosec // a thread that has ended has no children
		for word := range bytes.FieldsSeq(text) {
			if pid, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// search finds the children among all processes.
func search() (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	self := []byte(strconv.Itoa(os.Getpid()))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + name + "/stat") //nolint:gosec // a number
		// "7 (name) S 1 …": the name may have blanks and brackets.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) > 1 && bytes.Equal(fields[1], self) {
			pids = append(pids, pid)
		}
	}
	return pids
}
