package redlocktest

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// reserve finds a free port of 127.0.0.1 and keeps it from everybody who asks for any, until
// it is closed: by a socket that has the port and does not listen. Whoever connects is
// refused. A listener that names the port gets it, because both allow the address's reuse, as
// all of Go's listeners do.
func reserve() (addr string, port io.Closer, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), "port")
	defer func() {
		if err != nil {
			_ = socket.Close() // is being thrown away
		}
	}()
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", nil, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", nil, os.NewSyscallError("bind", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return "", nil, os.NewSyscallError("getsockname", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port), socket, nil
}

// shut ends the listening itself. To close the listener is not enough while a program is being
// started, which has all that is open here until it runs: the port would go on to listen.
func shut(listener net.Listener) {
	sys, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = sys.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }) // likewise
}
