//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// Notify returns the signals that a program under a lock is to get as well, for Options.Signals:
// HUP, INT, QUIT, TERM, USR1, USR2, WINCH and CONT. From now on they do not end this process;
// what it ignores goes on to be ignored. stop ends it.
//
// It also keeps SIGPIPE from ending this process, which would leave the program without renewal.
func Notify() (signals <-chan os.Signal, stop func()) {
	c, pipe := make(chan os.Signal, 16), make(chan os.Signal, 1)
	for _, s := range []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
	} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	signal.Notify(pipe, syscall.SIGPIPE)
	return c, func() { signal.Stop(c); signal.Stop(pipe) }
}

// Ends reports whether a signal asks a program to end, by its usual meaning.
func Ends(s os.Signal) bool {
	return s == syscall.SIGHUP || s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTERM
}

// fromTerminal reports whether a terminal sends the signal to all of its foreground group.
func fromTerminal(s syscall.Signal) bool {
	return s == syscall.SIGHUP || s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGWINCH
}

// InForeground reports whether stdin is a terminal whose foreground group is that of this process.
func InForeground() bool {
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group))) //nolint:gosec // this is how the system call takes its result's place
	return errno == 0 && int(group) == syscall.Getpgrp()
}
