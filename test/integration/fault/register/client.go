package register

import (
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/quorumlock/quorumlock/fence"
)

// errClosed says that the client was closed.
var errClosed = errors.New("register: the client is closed")

// Client asks a server, over as many connections as there are calls at a time. All
// methods are safe for concurrent use.
type Client struct {
	addr string

	mu     sync.Mutex
	idle   []*link
	closed bool
}

// A link is a connection with what gob has told the other side about its types.
type link struct {
	net.Conn
	requests *gob.Encoder
	answers  *gob.Decoder
}

// Dial connects to the server at addr.
func Dial(addr string) (*Client, error) {
	c := &Client{addr: addr}
	l, err := c.take()
	if err != nil {
		return nil, err
	}
	c.put(l)
	return c, nil
}

// Read returns the key's content, which is "" at first. If the server refuses the fence
// the error matches [fence.ErrStale] or [fence.ErrMissing].
func (c *Client) Read(key string, number int64) (content string, err error) {
	return c.call(request{Key: key, Fence: number})
}

// Write changes the key's content. If the server refuses the fence the error matches
// [fence.ErrStale] or [fence.ErrMissing], and nothing was written. With any other error
// nobody knows; nothing is sent twice.
func (c *Client) Write(key string, number int64, content string) error {
	_, err := c.call(request{Key: key, Fence: number, Write: true, Content: content})
	return err
}

// Close ends the connections, those that are in use when their calls return.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for _, l := range c.idle {
		errs = append(errs, l.Close())
	}
	c.idle = nil
	return errors.Join(errs...)
}

func (c *Client) call(r request) (content string, err error) {
	l, err := c.take()
	if err != nil {
		return "", err
	}
	var a answer
	if err = l.requests.Encode(r); err == nil {
		err = l.answers.Decode(&a)
	}
	if err != nil {
		_ = l.Close()
		return "", fmt.Errorf("register: %w", err)
	}
	c.put(l)
	if a.Refused {
		return "", fence.Check(a.Last, r.Fence) // the error that the server had
	}
	return a.Content, nil
}

// take returns a connection that nobody uses, or a new one.
func (c *Client) take() (*link, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	if last := len(c.idle) - 1; last >= 0 {
		l := c.idle[last]
		c.idle = c.idle[:last]
		c.mu.Unlock()
		return l, nil
	}
	c.mu.Unlock()
	conn, err := net.Dial("tcp", c.addr) //nolint:noctx // loopback
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	return &link{conn, gob.NewEncoder(conn), gob.NewDecoder(conn)}, nil
}

func (c *Client) put(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = l.Close()
		return
	}
	c.idle = append(c.idle, l)
}
