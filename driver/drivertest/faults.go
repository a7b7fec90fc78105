package drivertest

import "sync"

// fault is what the server does to the command that calls it up. Everybody else's
// commands are answered as usual, as far as they are on other connections.
type fault struct {
	kind    faultKind
	release chan struct{} // ends a stopReading or a silence
	hostile hostility     // of beHostile
}

type faultKind int

const (
	stopReading faultKind = iota // does not carry it out, and reads nothing more, until released
	keepSilent                   // carries it out and reads on, and answers nothing until released
	loseReply                    // carries it out and closes the connection without an answer
	resetConn                    // the same, but the connection is reset
	cutReply                     // carries it out, sends half of the reply and closes
	answerClose                  // answers, then closes
	beHostile                    // sends something else: see hostility
)

func (k faultKind) String() string {
	return [...]string{"stops reading", "keeps silent", "loses the reply", "resets the connection", "sends half a reply", "answers and closes", "is hostile"}[k]
}

// fault calls up a fault whenever a command arrives that has arg among its arguments.
// The function that it returns ends the fault and lets what was stalled go on.
func (s *server) fault(arg string, kind faultKind) (release func()) {
	f := &fault{kind: kind, release: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[arg] = f
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.faults, arg)
		close(f.release)
	})
}

// answer carries out one command, faults included. It returns false when the
// connection has ended.
func (s *server) answer(c *conn, args []string) bool {
	f := s.faultFor(args)
	if f == nil {
		c.queue(s.execute(c, args))
		return true
	}
	// What came before it on this connection has been answered.
	if c.flush() != nil {
		return false
	}
	switch f.kind {
	case stopReading:
		select {
		case <-f.release:
		case <-s.closed:
			return false
		}
		c.queue(s.execute(c, args))
		return true
	case keepSilent:
		c.silence(true)
		c.queue(s.execute(c, args))
		s.done.Go(func() {
			select {
			case <-f.release:
				c.silence(false)
				_ = c.flush() // fails when the client has gone, which ends the connection anyway
			case <-s.closed:
			}
		})
		return true
	case loseReply:
		s.execute(c, args)
	case resetConn:
		s.execute(c, args)
		_ = c.net.SetLinger(0)
		return false
	case cutReply:
		reply := s.execute(c, args)
		_, _ = c.net.Write([]byte(reply[:len(reply)/2]))
	case answerClose:
		_, _ = c.net.Write([]byte(s.execute(c, args)))
	case beHostile:
		return f.hostile.answer(s, c, args)
	}
	c.hangUp()
	return false
}

func (s *server) faultFor(args []string) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, arg := range args {
		if f := s.faults[arg]; f != nil {
			return f
		}
	}
	return nil
}

// freeze stops the whole server, as SIGSTOP does: connections are still
// accepted, and nothing is read or answered, handshakes included.
func (s *server) freeze() (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.gate = gate
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gate = nil
		close(gate)
	})
}

// pass waits while the server is frozen. It returns false when the server closes.
func (s *server) pass() bool {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate == nil {
		return true
	}
	select {
	case <-gate:
		return true
	case <-s.closed:
		return false
	}
}

// guard makes the server want a password, and refuse every one.
func (s *server) guard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guarded = true
}

// turnAway makes the server say a line to who connects, at once or in place of the first reply, and
// hang up. With "" it takes connections again.
func (s *server) turnAway(line string, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.asked = line, asked
}

// cut closes the connections that are open now. What is published from now on does
// not count them any more.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.net.Close()
	}
	clear(s.conns)
	s.changed.Broadcast()
}

// refuse closes the port and every connection.
func (s *server) refuse() {
	s.mu.Lock()
	s.refusing = true
	s.mu.Unlock()
	_ = s.listener.Close() // it may be closed already
	s.cut()
}
