//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// Notify returns the signals that a program under a lock is to get as well, for Options.Signals:
// HUP, INT, QUIT, TERM, USR1, USR2, ALRM, IO, WINCH and CONT, and on Linux PWR and those for real-time
// uses, but for SIGRTMIN itself, which Go keeps. From now on they do not end this process; what it
// ignores goes on to be ignored. stop ends it.
//
// It also keeps SIGPIPE from ending this process, which would leave the program without renewal.
func Notify() (signals <-chan os.Signal, stop func()) {
	c, pipe := make(chan os.Signal, 64), make(chan os.Signal, 1)
	listen(c, append(passed(), syscall.SIGCONT))
	signal.Notify(pipe, syscall.SIGPIPE)
	return c, func() { signal.Stop(c); signal.Stop(pipe) }
}

// passed are the signals that are for the program and can be passed on.
func passed() []syscall.Signal {
	return append([]syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGIO, syscall.SIGWINCH,
	}, ownSignals()...)
}

// listen has signals sent to a channel, but for those that this process ignores: to listen would
// end that, and the program would not inherit it.
func listen(c chan<- os.Signal, signals []syscall.Signal) {
	ignored := ignored()
	for _, s := range signals {
		if !ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// Ends reports whether a signal asks a program to end, by its usual meaning.
func Ends(s os.Signal) bool {
	return s == syscall.SIGHUP || s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTERM
}

// fromTerminal reports whether a terminal sends the signal to all of its foreground group.
func fromTerminal(s syscall.Signal) bool {
	return s == syscall.SIGHUP || s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGWINCH
}

// InForeground reports whether the group of this process is in front at its terminal, where a
// program in another group could not read. The terminal is asked itself: stdin may be a pipe.
func InForeground() bool {
	terminal, err := syscall.Open("/dev/tty", syscall.O_RDONLY|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false // it has none
	}
	defer func() { _ = syscall.Close(terminal) }()
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(terminal), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group))) //nolint:gosec // this is how the system call takes its result's place
	return errno == 0 && int(group) == syscall.Getpgrp()
}
