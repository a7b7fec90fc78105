//go:build !linux

package server

import "syscall"

// attributes give a server a process group, for a signal to reach what it forks. Only Linux can tie
// a process to its parent: a test that is killed leaves its servers behind.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
