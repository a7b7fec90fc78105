//go:build unix

package redisserver

import "syscall"

const (
	stop = syscall.SIGSTOP
	goOn = syscall.SIGCONT
)
