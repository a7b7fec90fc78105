//go:build !linux

package server

import "syscall"

// attributes are the usual ones: only Linux can tie a process to its parent. A test
// that is killed leaves its servers behind.
func attributes() *syscall.SysProcAttr { return nil }
