//go:build !unix

package redisserver

import "syscall"

// There are no such signals, and no redis-server that would take them.
const (
	stop = syscall.Signal(-1)
	goOn = syscall.Signal(-1)
)
