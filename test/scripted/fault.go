package scripted

import "sync"

// fault is what the server does to the command that calls it up. Everybody else's
// commands are answered as usual, as far as they are on other connections.
type fault struct {
	kind    Fault
	release chan struct{} // ends a StopReading or a KeepSilent
	hostile Hostility     // of beHostile
}

// Fault is a kind of misbehaviour.
type Fault int

// The faults.
const (
	StopReading Fault = iota // does not carry it out, and reads nothing more, until released
	KeepSilent               // carries it out and reads on, and answers nothing until released
	LoseReply                // carries it out and closes the connection without an answer
	ResetConn                // the same, but the connection is reset
	CutReply                 // carries it out, sends half of the reply and closes
	AnswerClose              // answers, then closes
	beHostile                // sends something else: see Hostility
)

func (k Fault) String() string {
	return [...]string{"stops reading", "keeps silent", "loses the reply", "resets the connection", "sends half a reply", "answers and closes", "is hostile"}[k]
}

// Fault calls up a fault whenever a command arrives that has arg among its arguments, or is arg.
// The function that it returns ends the fault and lets what was stalled go on.
func (s *Server) Fault(arg string, kind Fault) (release func()) {
	return s.fault(arg, &fault{kind: kind, release: make(chan struct{})})
}

// Hostile makes the server hostile to a command with this argument.
func (s *Server) Hostile(arg string, h Hostility) (release func()) {
	return s.fault(arg, &fault{kind: beHostile, release: make(chan struct{}), hostile: h})
}

func (s *Server) fault(arg string, f *fault) (release func()) {
	s.Locked(func() { s.faults[arg] = f })
	return sync.OnceFunc(func() {
		s.Locked(func() { delete(s.faults, arg) })
		close(f.release)
	})
}

// answer carries out one command, faults included. It returns false when the
// connection has ended.
func (s *Server) answer(c *Conn, args []string) bool {
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
	case StopReading:
		select {
		case <-f.release:
		case <-s.closed:
			return false
		}
		c.queue(s.execute(c, args))
		return true
	case KeepSilent:
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
	case LoseReply:
		s.execute(c, args)
	case ResetConn:
		s.execute(c, args)
		c.reset()
		return false
	case CutReply:
		reply := s.execute(c, args)
		_, _ = c.net.Write([]byte(reply[:len(reply)/2]))
	case AnswerClose:
		_, _ = c.net.Write([]byte(s.execute(c, args)))
	case beHostile:
		return f.hostile.answer(s, c, args)
	}
	c.hangUp()
	return false
}

func (s *Server) faultFor(args []string) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, arg := range args {
		if f := s.faults[arg]; f != nil {
			return f
		}
	}
	return nil
}

// Freeze stops the whole server, as SIGSTOP does: connections are still
// accepted, and nothing is read or answered, handshakes included.
func (s *Server) Freeze() (thaw func()) {
	gate := make(chan struct{})
	s.Locked(func() { s.gate = gate })
	return sync.OnceFunc(func() {
		s.Locked(func() { s.gate = nil })
		close(gate)
	})
}

// pass waits while the server is frozen. It returns false when the server closes.
func (s *Server) pass() bool {
	var gate chan struct{}
	s.Locked(func() { gate = s.gate })
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

// Guard makes the server want a password, and refuse every one.
func (s *Server) Guard() { s.Locked(func() { s.guarded = true }) }

// TurnAway makes the server say a line to who connects, at once or in place of the first reply, and
// hang up. With "" it takes connections again.
func (s *Server) TurnAway(line string, asked bool) {
	s.Locked(func() { s.away, s.asked = line, asked })
}

// Cut closes the connections that are open now. What is published from now on does
// not count them any more.
func (s *Server) Cut() {
	s.Locked(func() {
		for c := range s.conns {
			_ = c.net.Close()
		}
		clear(s.conns)
	})
}

// Refuse closes the port and every connection.
func (s *Server) Refuse() {
	s.Locked(func() { s.refusing = true })
	if s.listener != nil {
		_ = s.listener.Close() // it may be closed already
	}
	s.Cut()
}
