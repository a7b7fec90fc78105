package server

import "syscall"

// attributes make a server die with the test that started it, also when that test
// is killed and cannot clean up. It has a process group, for a signal to reach what it forks.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
