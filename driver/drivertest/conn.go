package drivertest

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// conn is one client's connection to the server.
type conn struct {
	net   *net.TCPConn
	in    *bufio.Reader
	id    int
	proto int

	mu   sync.Mutex // for what a fault's end touches from outside
	out  []byte     // replies that have not been sent
	mute bool       // keep them
}

// queue puts a reply behind those that have not been sent.
func (c *conn) queue(reply string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, reply...)
}

// silence keeps replies from being sent, or lets them go with the next flush.
func (c *conn) silence(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = on
}

// flush sends the replies that wait.
func (c *conn) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mute || len(c.out) == 0 {
		return nil
	}
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}

// hangUp ends the connection in a way that lets the client read everything that
// was sent before: a close with unread input would reset it.
func (c *conn) hangUp() {
	if c.net.CloseWrite() != nil {
		return // the client was faster
	}
	_ = c.net.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, c.net)
}
