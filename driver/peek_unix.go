//go:build unix

package driver

import "syscall"

// waits reports whether data or the end of the connection can be read. It does not wait.
func (c *Conn) waits() bool {
	if c.raw == nil {
		return false
	}
	c.empty = true
	_ = c.raw.Control(c.peek) // fails on a closed connection, and so will the write
	return !c.empty
}

func (c *Conn) peekAt(fd uintptr) {
	_, _, err := syscall.Recvfrom(int(fd), c.first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	c.empty = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}
