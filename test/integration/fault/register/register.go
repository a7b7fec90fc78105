// Package register is what a lock protects in tests: a server with one content for each
// key, which refuses who comes with a smaller fence than somebody before, and a client
// for the processes that hold the locks.
package register

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"

	"github.com/quorumlock/quorumlock/fence"
)

// A Request is what a client asks for. One that did not arrive as a whole is not one.
type Request struct {
	Key     string
	Fence   int64
	Write   bool // of Content; otherwise it reads
	Content string
}

// An Answer is what the server says to that.
type Answer struct {
	Content string
	Refused bool
	Last    int64 // if refused, the greatest fence that was seen
}

// method is what clients call.
const method = "register.Do"

// contents are those of all keys.
type contents struct {
	mu    sync.Mutex
	admit func(key string, number int64) error // with mu held
	byKey map[string]string
}

// Do reads or writes, and compares fences, in one step.
func (c *contents) Do(r Request, a *Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.admit(r.Key, r.Fence); err != nil {
		a.Refused = true
		var stale *fence.StaleError
		if errors.As(err, &stale) {
			a.Last = stale.Last
		}
		return nil
	}
	if r.Write {
		c.byKey[r.Key] = r.Content
	}
	a.Content = c.byKey[r.Key]
	return nil
}

// Server keeps the contents. All methods are safe for concurrent use.
type Server struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

// Serve starts a server on a free port of loopback. It refuses each read and each write
// whose fence is smaller than the greatest that has come for that key, or missing.
func Serve() (*Server, error) {
	var guard fence.Guard
	return serve(guard.Admit)
}

// ServeUnfenced starts a server that takes everything from everybody, whatever the fence.
func ServeUnfenced() (*Server, error) {
	return serve(func(string, int64) error { return nil })
}

func serve(admit func(string, int64) error) (*Server, error) {
	calls := rpc.NewServer()
	if err := calls.RegisterName("register", &contents{admit: admit, byKey: map[string]string{}}); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener}
	s.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			s.mu.Lock()
			if s.conns = append(s.conns, conn); s.closed {
				_ = conn.Close()
			}
			s.mu.Unlock()
			s.running.Go(func() { calls.ServeConn(conn) })
		}
	})
	return s, nil
}

// Addr is where clients reach it.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server and its connections, and waits for its goroutines.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

// Client asks a server. All methods are safe for concurrent use.
type Client struct{ *rpc.Client }

// Dial connects to the server at addr.
func Dial(addr string) (*Client, error) {
	calls, err := rpc.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	return &Client{calls}, nil
}

// Read returns the key's content, which is "" at first. If the server refuses the fence
// the error matches [fence.ErrStale] or [fence.ErrMissing].
func (c *Client) Read(key string, number int64) (content string, err error) {
	return c.call(Request{Key: key, Fence: number})
}

// Write changes the key's content. If the server refuses the fence the error matches
// [fence.ErrStale] or [fence.ErrMissing], and nothing was written. With any other error
// nobody knows; nothing is sent twice.
func (c *Client) Write(key string, number int64, content string) error {
	_, err := c.call(Request{Key: key, Fence: number, Write: true, Content: content})
	return err
}

func (c *Client) call(r Request) (content string, err error) {
	var a Answer
	if err := c.Call(method, r, &a); err != nil {
		return "", fmt.Errorf("register: %w", err)
	}
	if a.Refused {
		return "", fence.Check(a.Last, r.Fence) // the error that the server had
	}
	return a.Content, nil
}
