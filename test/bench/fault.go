package main

import (
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// Fault is what happens to some of the nodes.
type Fault struct {
	Name   string
	slow   bool          // it strikes the proxy, so the way to the last node must lead through it
	down   int           // how many servers have ended meanwhile
	settle time.Duration // how long it takes until everybody has noticed
	strike func(*Site) error
	lift   func(*Site) error
}

// minorities are the faults that leave a quorum.
var minorities = []Fault{
	hung(1), hung(2), refused(1), refused(2),
	{
		Name:   "1 node slow by 30 ms",
		slow:   true,
		settle: 100 * time.Millisecond,
		strike: func(s *Site) error { return s.delay.Set(nodes-1, 30*time.Millisecond) },
		lift:   func(s *Site) error { return s.delay.Set(nodes-1, 0) },
	},
}

// majorities are the faults that leave none.
var majorities = []Fault{refused(3), hung(3)}

func hung(n int) Fault {
	return Fault{
		Name:   plural(n) + " hung",
		settle: callTimeout + 100*time.Millisecond, // longer than every time-out
		strike: func(s *Site) error { return s.last(n, (*server.Process).Pause) },
		lift:   func(s *Site) error { return s.last(n, (*server.Process).Continue) },
	}
}

func refused(n int) Fault {
	return Fault{
		Name:   plural(n) + " refused",
		down:   n,
		settle: 100 * time.Millisecond,
		strike: func(s *Site) error { return s.last(n, (*server.Process).Kill) },
		lift:   func(s *Site) error { return s.last(n, (*server.Process).Start) },
	}
}

func plural(n int) string {
	if n == 1 {
		return "1 node"
	}
	return whole(float64(n)) + " nodes"
}
