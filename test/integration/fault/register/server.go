// Package register is what a lock protects in tests: a server with one content for each
// key, which refuses who comes with a smaller fence than somebody before, and a client
// for the processes that hold the locks.
package register

import (
	"encoding/gob"
	"errors"
	"net"
	"sync"

	"github.com/quorumlock/quorumlock/fence"
)

// A request is what a client asks for. One that did not arrive as a whole is not one.
type request struct {
	Key     string
	Fence   int64
	Write   bool // of Content; otherwise it reads
	Content string
}

type answer struct {
	Content string
	Refused bool
	Last    int64 // if refused, the greatest fence that was seen
}

// Server keeps the contents. All methods are safe for concurrent use.
type Server struct {
	listener net.Listener
	admit    func(key string, number int64) error // with mu held
	running  sync.WaitGroup

	mu       sync.Mutex
	contents map[string]string
	conns    map[net.Conn]struct{} // nil when closed
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
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	s := &Server{listener: listener, admit: admit, contents: map[string]string{}, conns: map[net.Conn]struct{}{}}
	s.running.Go(s.accept)
	return s, nil
}

// Addr is where clients reach it.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server and its connections, and waits for its goroutines.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.running.Go(func() { s.converse(conn) })
	}
}

// converse answers one connection's requests until it ends.
func (s *Server) converse(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	s.mu.Lock()
	closed := s.conns == nil
	if !closed {
		s.conns[conn] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		return
	}
	requests, answers := gob.NewDecoder(conn), gob.NewEncoder(conn)
	for {
		var r request
		if requests.Decode(&r) != nil || answers.Encode(s.do(r)) != nil {
			break
		}
	}
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

// do reads or writes, and compares fences, in one step.
func (s *Server) do(r request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(r.Key, r.Fence); err != nil {
		refused := answer{Refused: true}
		var stale *fence.StaleError
		if errors.As(err, &stale) {
			refused.Last = stale.Last
		}
		return refused
	}
	if r.Write {
		s.contents[r.Key] = r.Content
	}
	return answer{Content: s.contents[r.Key]}
}
