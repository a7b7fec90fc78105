package supervise

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// From linux/time.h and linux/timerfd.h.
const (
	clockBoottime = 7
	absolute      = 1
)

// An alarm rings at a moment of CLOCK_BOOTTIME; at once after a sleep of the machine in which
// that has passed.
type alarm struct {
	fd    int
	rings chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, fmt.Errorf("timerfd_create: %w", errno)
	}
	a := &alarm{int(fd), make(chan struct{}, 1)}
	timer := os.NewFile(fd, "timer")
	go func() {
		for count := make([]byte, 8); ; {
			if _, err := timer.Read(count); err != nil {
				return
			}
			a.rings <- struct{}{}
		}
	}()
	return a, nil
}

// set lets it ring at a moment, and not at the one before; 0: never.
func (a *alarm) set(at time.Duration) {
	if at < 0 {
		at = 1
	}
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(at))}                                                            // 0: no repetition
	_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(a.fd), absolute, uintptr(unsafe.Pointer(&spec)), 0, 0, 0) //nolint:gosec // this is how the system call takes its argument; it has no error that these arguments cause
}
