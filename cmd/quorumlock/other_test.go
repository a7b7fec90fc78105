//go:build !linux

package main

// other has nothing to be here: programs are run under a lock in tests on Linux.
func other() {}
