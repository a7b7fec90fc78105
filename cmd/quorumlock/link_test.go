//go:build linux

package main

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A link is a connection to a server that can be cut.
type link struct {
	addr     string
	listener net.Listener

	mu    sync.Mutex
	conns []net.Conn
	is    bool // cut
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the loopback does not wait
	if err != nil {
		t.Fatal(err)
	}
	l := &link{addr: listener.Addr().String(), listener: listener}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to) //nolint:noctx // likewise
			if err != nil {
				_ = from.Close()
				continue
			}
			l.keep(from, server)
			running.Go(func() { _, _ = io.Copy(server, from); _ = server.Close() })
			running.Go(func() { _, _ = io.Copy(from, server); _ = from.Close() })
		}
	})
	t.Cleanup(func() { l.cut(); running.Wait() })
	return l
}

func (l *link) keep(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conns...)
	if l.is {
		l.close()
	}
}

func (l *link) close() {
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// cut ends the connections, and lets none begin.
func (l *link) cut() {
	_ = l.listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = true
	l.close()
}
