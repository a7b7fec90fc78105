//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// guards are the children of this process that sessions wait for.
var guards = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

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
		reaped(s.guard)
		guards.Lock()
		defer guards.Unlock()
		delete(guards.pids, s.guard)
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
	guards.Lock()
	defer guards.Unlock()
	defer func() { guards.pids[pid] = true }()
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

var enlisted = sync.OnceFunc(enlist)

// enlist starts as many threads as this process may ever need: the program may leave it none to start
// (RLIMIT_NPROC, pids.max), and then the Go runtime would end the process where it wants one more. One
// that has nothing to do stays.
func enlist() {
	var here, over sync.WaitGroup
	n := runtime.GOMAXPROCS(0) + 8 // for Go code, and for system calls that wait
	here.Add(n)
	for range n {
		over.Go(func() {
			runtime.LockOSThread() // each has one to itself until all have
			defer runtime.UnlockOSThread()
			here.Done()
			here.Wait()
		})
	}
	over.Wait()
}

// reaped reaps a child when it has ended.
func reaped(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}
