//go:build unix

package goredis

import (
	"net"
	"syscall"
	"time"
)

// above is a connection over another: TLS, and our own.
type above interface{ NetConn() net.Conn }

// quiet reports whether nothing has happened on an idle connection: the server has
// neither closed it nor sent what nobody asked for. It does not wait.
func quiet(socket net.Conn) bool {
	for over, ok := socket.(above); ok; over, ok = socket.(above) {
		socket = over.NetConn()
	}
	sys, ok := socket.(syscall.Conn)
	if !ok {
		return true // a pipe, or a dialer's own: the first use will tell
	}
	if socket.SetReadDeadline(time.Time{}) != nil {
		return false // closed; and else the last batch's deadline would answer
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return false
	}
	var peeked error
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, peeked = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && (peeked == syscall.EAGAIN || peeked == syscall.EWOULDBLOCK)
}
