//go:build unix

package driver

import "syscall"

// waiting reports whether there is something to be read. It does not wait.
func (c *Conn) waiting() bool {
	if c.raw == nil {
		return false
	}
	c.some = false
	_ = c.raw.Control(c.look) // fails on a closed connection, and so will the write
	return c.some
}

// peek looks at the socket.
func (c *Conn) peek(fd uintptr) {
	n, _, err := syscall.Recvfrom(int(fd), c.first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	c.some = err == nil && n > 0
}
