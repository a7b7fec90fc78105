// Package framing stands between a client and its connection, and ends that where the
// server breaks the rules of the protocol. Clients trust a server with more than a lock
// may: they allocate what it announces, read arrays in arrays by recursion until the
// stack is full, take an answer that nobody has asked for as the next one's, or panic.
package framing

import (
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/quorumlock/quorumlock/driver"
)

// Conn is a connection on which every reply is whole, of a reasonable size, and asked
// for. Bytes that would make another reply do not reach the client: it reads an error.
type Conn struct {
	net.Conn

	writing sync.Mutex // what is noted first is also written first
	mu      sync.Mutex
	owed    ledger
	in, out scanner
	fault   error

	raw   syscall.RawConn // nil: what waits to be read cannot be seen
	look  func(fd uintptr)
	first [1]byte // that waits
	some  bool
}

// Check checks what is read from conn.
func Check(conn net.Conn) *Conn {
	if checked, ok := conn.(*Conn); ok {
		conn = checked.Conn
	}
	c := &Conn{Conn: conn}
	c.in = scanner{maxString: maxString, first: c.owed.expects, whole: c.owed.answered}
	c.out = scanner{maxString: maxArgument, first: func(byte) error { return nil }, whole: c.owed.asked}
	return c
}

// maxArgument is far above what a server takes: what is written is the client's own.
const maxArgument = 1 << 40

// CheckBetween also refuses to write where there is something to be read that nobody has
// asked for. It is for clients that read only when they wait for a reply, and would take
// it for that.
func CheckBetween(conn net.Conn) *Conn {
	c := Check(conn)
	if sys, ok := c.Conn.(syscall.Conn); ok { // not over TLS, where it need not be a reply
		c.raw, _ = sys.SyscallConn() // fails on a closed one
		c.look = c.peek
	}
	return c
}

// NetConn is the connection below, as that of a [tls.Conn].
func (c *Conn) NetConn() net.Conn { return c.Conn }

func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	fault := c.fault
	c.mu.Unlock()
	if fault != nil {
		return 0, fault
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	right, wrong := c.in.scan(p[:n])
	if wrong == nil {
		return n, err
	}
	c.fault = fmt.Errorf("the server's reply was not taken: %w", wrong)
	if right > 0 {
		return right, nil
	}
	return 0, c.fault
}

// Write notes which replies are to come. Where it refuses to write at all, its error
// wraps [driver.ErrNotSent].
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.note(p); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *Conn) note(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.owed.settled() && c.out.between()
	if idle && c.fault == nil && !c.owed.listening && c.waiting() {
		c.fault = fmt.Errorf("the server's reply was not taken: %w", errUnasked)
	}
	if c.fault != nil {
		if idle {
			return driver.NotSent(c.fault)
		}
		return c.fault
	}
	_, err := c.out.scan(p)
	return err
}
