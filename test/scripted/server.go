// Package scripted is a small server for tests, in this process, that counts what it receives and
// misbehaves on request. It speaks RESP2, and RESP3 to a client that says HELLO 3.
package scripted

import (
	"net"
	"slices"
	"sync"
	"time"
)

// Reporter is the part of *testing.T that a server uses.
type Reporter interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Server is one server. It is made by [New] or [Start].
type Server struct {
	// Instead answers in place of what the server knows, where ok: one command at a time, and in
	// the version of the protocol that its connection speaks. It may be nil.
	Instead func(proto int, args []string) (reply string, ok bool)

	// Patience is how long the server waits for what has to come: a minute, if nobody sets it.
	Patience time.Duration

	listener net.Listener  // nil if it has pipes
	closed   chan struct{} // ends every stall
	closing  sync.Once
	done     sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // a command came, somebody subscribed, or a connection came or went
	received []Receipt
	conns    map[*Conn]struct{}
	opened   int  // connections so far
	refusing bool // the port is closed
	values   map[string]string
	faults   map[string]*fault // by the argument that calls it up
	gate     chan struct{}     // not nil: the server is frozen until it is closed
	guarded  bool              // a password is wanted, and no password is right
	away     string            // what is said to who connects, before the server hangs up; "": nothing, it goes on
	asked    bool              // it is said in place of the first reply
	polite   *Conn             // has answered in place of a hostility that comes later
}

// Receipt is a command that has arrived, whether or not it was carried out.
type Receipt struct {
	Conn int
	Args []string
}

// New returns a server for [Server.Dial], which a bubble of testing/synctest may use.
func New() *Server {
	s := &Server{
		Patience: time.Minute,
		closed:   make(chan struct{}),
		conns:    map[*Conn]struct{}{},
		values:   map[string]string{},
		faults:   map[string]*fault{},
	}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Start returns a server that listens on a free port of the loopback, until the test's end.
func Start(r Reporter) *Server {
	r.Helper()
	s := New()
	var err error
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // listening on the loopback does not wait
		r.Fatalf("the test's own server cannot listen: %v", err)
	}
	s.done.Go(s.listen)
	r.Cleanup(s.Close)
	return s
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Dial returns the client's end of a new connection, which is a pipe.
func (s *Server) Dial() net.Conn {
	client, server := net.Pipe()
	s.accept(server)
	return client
}

// Close ends every connection and waits for every goroutine of the server.
func (s *Server) Close() {
	s.closing.Do(func() { close(s.closed) })
	s.Refuse()
	s.done.Wait()
}

func (s *Server) listen() {
	for {
		accepted, err := s.listener.Accept()
		if err != nil {
			return // closed: by Close, or by Refuse
		}
		s.accept(accepted)
	}
}

func (s *Server) accept(accepted net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing {
		_ = accepted.Close()
		return
	}
	s.opened++
	c := newConn(accepted, s.opened)
	s.conns[c] = struct{}{}
	s.changed.Broadcast()
	s.done.Go(func() { s.serve(c) })
}

// serve answers one connection until either side ends it.
func (s *Server) serve(c *Conn) {
	defer func() {
		_ = c.net.Close()
		s.Locked(func() { delete(s.conns, c) })
	}()
	var away string
	var asked bool
	s.Locked(func() { away, asked = s.away, s.asked })
	if away != "" && !asked {
		_, _ = c.net.Write([]byte(Failure(away)))
		return
	}
	for {
		args, err := c.commands.Command()
		if err != nil || len(args) == 0 {
			return
		}
		if away != "" {
			_, _ = c.net.Write([]byte(Failure(away)))
			c.hangUp()
			return
		}
		s.Locked(func() { s.received = append(s.received, Receipt{Conn: c.id, Args: args}) })
		if !s.pass() || !s.answer(c, args) {
			return
		}
		// Replies go out together, as from a real server, once no command waits.
		if c.in.Buffered() == 0 {
			if c.flush() != nil {
				return
			}
			s.Locked(func() { c.rested = len(s.received) })
		}
	}
}

// Locked looks at the server, or changes it, while nothing else changes there.
func (s *Server) Locked(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
	s.changed.Broadcast()
}

// Receipts returns what has arrived with this key (any word of a command counts) so far, in
// the order of each connection.
func (s *Server) Receipts(key string) (found []Receipt) {
	s.Locked(func() { found = s.receipts(key) })
	return found
}

func (s *Server) receipts(key string) (found []Receipt) {
	for _, r := range s.received {
		if slices.Contains(r.Args, key) {
			found = append(found, r)
		}
	}
	return found
}

// Count says how often a command with this key has arrived.
func (s *Server) Count(key string) int { return len(s.Receipts(key)) }

// Forget drops what has been received: a fuzzer goes on for long.
func (s *Server) Forget() {
	s.Locked(func() {
		s.received = s.received[:0]
		for c := range s.conns {
			c.rested = 0
		}
	})
}

// Opened counts the connections that there have been.
func (s *Server) Opened() (n int) {
	s.Locked(func() { n = s.opened })
	return n
}

// Conns counts the connections that are open now.
func (s *Server) Conns() (n int) {
	s.Locked(func() { n = len(s.conns) })
	return n
}

// Await waits until commands with all these keys have arrived, and reports whether
// that happened in time.
func (s *Server) Await(keys ...string) bool {
	return s.wait(s.Patience, func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return len(s.receipts(key)) == 0 })
	})
}

// AwaitOpened waits until there has been a connection more than so many.
func (s *Server) AwaitOpened(n int) { s.wait(s.Patience, func() bool { return s.opened > n }) }

// AwaitConns waits until at most so many connections are open.
func (s *Server) AwaitConns(n int) bool {
	return s.wait(s.Patience, func() bool { return len(s.conns) <= n })
}

// AwaitSubscribers waits until n connections subscribe to the channel.
func (s *Server) AwaitSubscribers(channel string, n int) bool {
	return s.wait(s.Patience, func() bool { return len(s.subscribers(channel)) == n })
}

func (s *Server) wait(most time.Duration, met func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Wait(s.changed, most, met)
}

// Wait waits until a condition is met, with whose mutex it is called, and reports whether that
// happened in time.
func Wait(changed *sync.Cond, most time.Duration, met func() bool) bool {
	expired := false
	timer := time.AfterFunc(most, func() {
		changed.L.Lock()
		defer changed.L.Unlock()
		expired = true
		changed.Broadcast()
	})
	defer timer.Stop()
	for !expired && !met() {
		changed.Wait()
	}
	return !expired
}
