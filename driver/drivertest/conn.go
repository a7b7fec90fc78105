package drivertest

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver/resp"
)

// conn is one client's connection to the server.
type conn struct {
	net   *net.TCPConn
	in    *bufio.Reader
	id    int
	proto int

	commands *resp.Reader // of in

	channels map[string]struct{} // that it subscribes to; the server's mu guards them
	rested   int                 // how much the server had received when all of the connection's was answered; likewise

	sending sync.Mutex // one writer at a time; mu is free while it waits for the client

	mu   sync.Mutex // for what others touch: a fault's end, and who publishes
	out  []byte     // replies that have not been sent
	mute bool       // keep them
}

func newConn(accepted *net.TCPConn, id int) *conn {
	in := bufio.NewReader(accepted)
	return &conn{net: accepted, in: in, id: id, proto: 2, commands: resp.NewReader(in), channels: map[string]struct{}{}}
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
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	if c.mute || len(c.out) == 0 {
		c.mu.Unlock()
		return nil
	}
	out := c.out
	c.out = nil
	c.mu.Unlock()
	_, err := c.net.Write(out)
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
