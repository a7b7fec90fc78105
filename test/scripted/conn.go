package scripted

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver/resp"
)

// Conn is one client's connection to the server.
type Conn struct {
	net   net.Conn
	in    *bufio.Reader
	id    int
	proto int
	name  string // that the client has given it

	commands *resp.Reader // of in

	channels map[string]struct{} // that it subscribes to; the server's mu guards them
	rested   int                 // how much the server had received when all of the connection's was answered; likewise

	sending sync.Mutex // one writer at a time; mu is free while it waits for the client

	mu   sync.Mutex // for what others touch: a fault's end, and who publishes
	out  []byte     // replies that have not been sent
	mute bool       // keep them
}

func newConn(accepted net.Conn, id int) *Conn {
	in := bufio.NewReader(accepted)
	return &Conn{net: accepted, in: in, id: id, proto: 2, commands: resp.NewReader(in), channels: map[string]struct{}{}}
}

// queue puts a reply behind those that have not been sent.
func (c *Conn) queue(reply string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out, reply...)
}

// silence keeps replies from being sent, or lets them go with the next flush.
func (c *Conn) silence(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = on
}

// flush sends the replies that wait.
func (c *Conn) flush() error {
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
func (c *Conn) hangUp() {
	tcp, ok := c.net.(*net.TCPConn)
	if !ok || tcp.CloseWrite() != nil {
		return // a pipe, or the client was faster
	}
	_ = tcp.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, tcp)
}

// reset lets the connection end with a reset.
func (c *Conn) reset() {
	if tcp, ok := c.net.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails on a closed one
	}
}
