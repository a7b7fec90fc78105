package drivertest

import (
	"net"
	"slices"
	"sync"
	"time"
)

// server is a small RESP server that counts what it receives and misbehaves on
// request: see faults.go. It speaks RESP2, and RESP3 to a client that says HELLO 3.
type server struct {
	listener net.Listener
	closed   chan struct{} // ends every stall
	closing  sync.Once
	done     sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond // a command came, somebody subscribed, or a connection came or went
	received []receipt
	conns    map[*conn]struct{}
	opened   int  // connections so far
	refusing bool // the port is closed
	values   map[string]value
	faults   map[string]*fault // by the argument that calls it up
	gate     chan struct{}     // not nil: the server is frozen until it is closed
	guarded  bool              // a password is wanted, and no password is right
	away     string            // what is said to who connects, before the server hangs up; "": nothing, it goes on
	asked    bool              // it is said in place of the first reply
	polite   *conn             // has answered in place of a hostility that comes later
}

// receipt is a command that has arrived, whether or not it was carried out.
type receipt struct {
	conn int
	args []string
}

// value is a string key.
type value struct {
	data    string
	expires time.Time // zero: never
}

// startServer listens on a free port of the loopback.
func startServer(r reporter) *server {
	r.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on the loopback does not wait
	if err != nil {
		r.Fatalf("the suite's own server cannot listen: %v", err)
	}
	s := &server{
		listener: listener,
		closed:   make(chan struct{}),
		conns:    map[*conn]struct{}{},
		values:   map[string]value{},
		faults:   map[string]*fault{},
	}
	s.changed = sync.NewCond(&s.mu)
	s.done.Go(s.accept)
	r.Cleanup(s.close)
	return s
}

func (s *server) addr() string { return s.listener.Addr().String() }

// close ends every connection and waits for every goroutine of the server.
func (s *server) close() {
	s.closing.Do(func() { close(s.closed) })
	s.refuse()
	s.done.Wait()
}

func (s *server) accept() {
	for {
		accepted, err := s.listener.Accept()
		if err != nil {
			return // closed: by close, or by refuse
		}
		s.mu.Lock()
		if s.refusing {
			s.mu.Unlock()
			_ = accepted.Close()
			return
		}
		s.opened++
		c := newConn(accepted.(*net.TCPConn), s.opened) //nolint:forcetypeassert // a TCP listener accepts nothing else
		s.conns[c] = struct{}{}
		s.changed.Broadcast()
		s.mu.Unlock()
		s.done.Go(func() { s.serve(c) })
	}
}

// serve answers one connection until either side ends it.
func (s *server) serve(c *conn) {
	defer func() {
		_ = c.net.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.changed.Broadcast()
		s.mu.Unlock()
	}()
	s.mu.Lock()
	away, asked := s.away, s.asked
	s.mu.Unlock()
	if away != "" && !asked {
		_, _ = c.net.Write([]byte(failure(away)))
		return
	}
	for {
		args, err := c.commands.Command()
		if err != nil || len(args) == 0 {
			return
		}
		if away != "" {
			_, _ = c.net.Write([]byte(failure(away)))
			c.hangUp()
			return
		}
		s.note(c, args)
		if !s.pass() {
			return
		}
		if !s.answer(c, args) {
			return
		}
		// Replies go out together, as from a real server, once no command waits.
		if c.in.Buffered() == 0 {
			if c.flush() != nil {
				return
			}
			s.rests(c)
		}
	}
}

// note records that args has arrived.
func (s *server) note(c *conn, args []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, receipt{conn: c.id, args: args})
	s.changed.Broadcast()
}

// rests records that all that has come on a connection is answered.
func (s *server) rests(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.rested = len(s.received)
	s.changed.Broadcast()
}

// receipts returns what has arrived with this key (any argument counts) so far, in
// the order of each connection.
func (s *server) receipts(key string) []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receiptsLocked(key)
}

func (s *server) receiptsLocked(key string) []receipt {
	var found []receipt
	for _, r := range s.received {
		if slices.Contains(r.args[1:], key) {
			found = append(found, r)
		}
	}
	return found
}

// count says how often a command with this key has arrived.
func (s *server) count(key string) int { return len(s.receipts(key)) }

// await waits until commands with all these keys have arrived, and reports whether
// that happened within five seconds.
func (s *server) await(keys ...string) bool {
	return s.awaitThat(func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return len(s.receiptsLocked(key)) == 0 })
	})
}

// awaitThat waits until the condition, which is asked with mu held, is met, and
// reports whether that happened within five seconds.
func (s *server) awaitThat(met func() bool) bool { return s.awaitWithin(patience, met) }

// awaitWithin is awaitThat with a patience of its own.
func (s *server) awaitWithin(most time.Duration, met func() bool) bool {
	expired := false
	timer := time.AfterFunc(most, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		expired = true
		s.changed.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !expired && !met() {
		s.changed.Wait()
	}
	return !expired
}
