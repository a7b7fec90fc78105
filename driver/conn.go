package driver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/quorumlock/quorumlock/driver/internal/framing"
)

// ErrProtocol is matched by the error of a [Conn] whose server has left the protocol. The
// connection cannot be used any more.
var ErrProtocol = errors.New("the server's reply was not taken")

// tlsAlert is the first byte of the record with which a server refuses plain text.
const tlsAlert = 0x15

// ErrTLS is matched, beside [ErrProtocol], by the error of a [Conn] whose server answers the first command
// with a TLS record: the server expects TLS.
var ErrTLS = errors.New("it is a record of TLS")

// Conn is a connection that fails when the server leaves the protocol. Every reply that the client reads is
// RESP2 or RESP3, whole, of a bounded size (a string of at most 4 MiB, a line of 64 KiB, arrays of 65,536
// elements and 32 levels), and the reply to a command. From the first byte of anything else on, the client
// reads an error that matches [ErrProtocol]. A server's last words before it hangs up, asked or not, are in
// the error as a [*ServerError].
//
// Clients trust a server more than a lock can afford. They allocate by announced sizes, read nested arrays
// by recursion until the stack is full, take an unasked reply as the next command's, or panic. So a driver
// that dials by itself puts a Conn between its client and the socket.
//
// It is safe for concurrent use as far as the connection below is.
type Conn struct {
	net.Conn

	writing  sync.Mutex // keeps the order of exchange that of the wire
	mu       sync.Mutex
	exchange *framing.Exchange
	fault    error
	received bool // something
	reading  bool
	rests    sync.Cond // a read has ended
	last     error     // of first
	hearing

	raw   syscall.RawConn // nil: waiting bytes cannot be seen
	peek  func(fd uintptr)
	first [1]byte // of the waiting bytes
	empty bool    // nothing waits
}

// CheckReplies returns conn as a connection that checks its replies. It belongs right above the socket or
// the TLS connection, before anything was read or written.
func CheckReplies(conn net.Conn) *Conn {
	if checked, ok := conn.(*Conn); ok {
		conn = checked.Conn
	}
	c := &Conn{Conn: conn, exchange: framing.NewExchange()}
	c.rests.L = &c.mu
	return c
}

// Strictly makes c look at the connection before a write, too, and returns c: where an unasked reply waits, or
// the server has closed the connection, c refuses to write. It is for clients that read only when they expect
// a reply, and would take an unasked one for it. On systems other than Unix waiting bytes cannot be seen.
func (c *Conn) Strictly() *Conn {
	socket := c.Conn
	for over, ok := socket.(interface{ NetConn() net.Conn }); ok; over, ok = socket.(interface{ NetConn() net.Conn }) {
		socket = over.NetConn() // below TLS
	}
	if sys, ok := socket.(syscall.Conn); ok {
		c.raw, _ = sys.SyscallConn() // fails on a closed one
		c.peek = c.peekAt
	}
	return c
}

// NetConn returns the connection below, as that of a [tls.Conn] does.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Read reads valid replies. From the first invalid byte on its error matches [ErrProtocol].
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	fault := c.fault
	c.reading = true
	c.mu.Unlock()
	if fault != nil {
		return 0, fault
	}
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading, c.last = false, err
	c.rests.Broadcast()
	right, wrong := c.exchange.Received(p[:n])
	first := !c.received
	c.received = c.received || n > 0
	c.hear(p[:n])
	if wrong == nil {
		if n == 0 && err != nil {
			err = c.ended(err)
		}
		return n, err
	}
	wrong = unasked(wrong, p[right:n])
	if first && p[0] == tlsAlert {
		wrong = ErrTLS
	}
	c.fault = fmt.Errorf("%w: %w", ErrProtocol, wrong)
	if right > 0 {
		return right, nil
	}
	return 0, c.fault
}

// Write notes which replies are to come. Where it refuses to write at all, its error matches [ErrNotSent];
// and [ErrProtocol], unless the server has closed the connection.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.note(p); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		err = c.lastWord(err)
	}
	return n, err
}

func (c *Conn) note(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.exchange.Idle()
	if idle && c.fault == nil && !c.reading && !c.exchange.Subscribed() {
		c.fault = c.unexpected()
	}
	if c.fault != nil {
		if idle {
			return NotSent(c.fault)
		}
		return c.fault
	}
	return c.exchange.Sent(p)
}

// unexpected returns the error of an idle connection with waiting bytes: the server has closed it, or has
// sent an unasked reply. Over TLS a session ticket may wait, too, which a read takes in.
func (c *Conn) unexpected() error {
	for c.waits() {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // for more to come behind a ticket
		said := make([]byte, maxLine)
		n, err := c.Conn.Read(said)
		switch {
		case n > 0:
			return fmt.Errorf("%w: %w", ErrProtocol, unasked(framing.ErrUnasked, said[:n]))
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return c.ended(err)
		}
		_ = c.SetReadDeadline(time.Time{})
	}
	return nil
}
