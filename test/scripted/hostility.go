package scripted

import (
	"slices"
	"time"
)

// Hostility is what a hostile server sends.
type Hostility struct {
	Raw    string
	Place  Place
	Ending Ending
}

// Place is where the bytes stand.
type Place uint8

// The places.
const (
	Instead Place = iota // of a reply
	Behind               // a reply, in one write with it
	Later                // when no command waits for a reply
	Places
)

func (p Place) String() string {
	return [...]string{"instead of a reply", "behind a reply", "after the call"}[p]
}

// Ending is what comes behind them.
type Ending uint8

// The endings.
const (
	HangsUp Ending = iota
	Resets
	GoesOn      // answers what else there is to answer
	StaysSilent // and reads on
	Endings
)

func (e Ending) String() string {
	return [...]string{"hangs up", "resets the connection", "goes on as if nothing had been", "is silent"}[e]
}

// answer answers a command. It returns false when the connection has ended.
func (h Hostility) answer(s *Server, c *Conn, args []string) bool {
	reply := ""
	if h.Place != Instead {
		reply = s.execute(c, args)
	}
	if h.Place == Later {
		c.queue(reply)
		s.Locked(func() { s.polite = c })
		return true
	}
	if h.send(c, reply) {
		return true
	}
	if h.Ending == HangsUp {
		c.hangUp()
	}
	return false
}

// send sends the bytes. It returns false when the connection is to end.
func (h Hostility) send(c *Conn, before string) bool {
	c.queue(before + h.Raw)
	if c.flush() != nil {
		return false
	}
	switch h.Ending {
	case HangsUp:
		return false
	case Resets:
		c.reset()
		return false
	case StaysSilent:
		c.silence(true)
	}
	return true
}

// Interject sends the bytes on an idle connection, and gives the client time to hang up before
// anything else happens.
func (s *Server) Interject(c *Conn, h Hostility, most time.Duration) (hungUp bool) {
	last := h.Ending
	h.Ending = GoesOn
	h.send(c, "")
	hungUp = s.wait(most, func() bool { _, open := s.conns[c]; return !open })
	switch last {
	case Resets:
		c.reset()
		fallthrough
	case HangsUp:
		_ = c.net.Close()
	}
	return hungUp
}

// Polite takes the connection that has answered, where the hostility comes later.
func (s *Server) Polite() (c *Conn) {
	s.Locked(func() { c, s.polite = s.polite, nil })
	return c
}

// HasAnswered waits until a command with this argument is answered, and all before it. A
// reply that is on its way when the next call leaves cannot be told from that one's.
func (s *Server) HasAnswered(arg string, most time.Duration) {
	s.wait(most, func() bool {
		c, at := s.receiver(arg)
		return at >= 0 && (c == nil || c.rested > at)
	})
}

// HasHungUp waits until the connection has gone on which the command with this argument came.
func (s *Server) HasHungUp(arg string, most time.Duration) {
	s.wait(most, func() bool {
		c, _ := s.receiver(arg)
		return c == nil
	})
}

// receiver is the connection on which the command with this argument came, or nil if it has gone;
// and which of those received it was, or -1 if it did not come. s.mu is held.
func (s *Server) receiver(arg string) (c *Conn, at int) {
	at = slices.IndexFunc(s.received, func(r Receipt) bool { return slices.Contains(r.Args[1:], arg) })
	if at < 0 {
		return nil, at
	}
	for c := range s.conns {
		if c.id == s.received[at].Conn {
			return c, at
		}
	}
	return nil, at
}
