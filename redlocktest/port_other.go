//go:build !linux

package redlocktest

import (
	"io"
	"net"
	"strings"
)

// reserve reserves nothing: elsewhere no listener gets a port that a socket has.
func reserve() (addr string, port io.Closer, err error) {
	return "127.0.0.1:0", io.NopCloser(strings.NewReader("")), nil
}

// shut does nothing: elsewhere a listener ends when it is closed.
func shut(net.Listener) {}
