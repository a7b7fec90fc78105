package quorum

// A Flight is one try for a key on behalf of all callers of this Locker that have asked for it
// while the try before was out. So the nodes see one try a key and round trip, however often it is
// asked for here. Its answer counts for those who came before it left; who comes later is in the
// next flight. The first of them leads: it waits until the try before is over, and then asks the
// nodes for all.
//
// Only what the nodes refuse is shared. A lock goes to the leader, and the others get the
// answer that the nodes would have given right behind it.
type Flight struct {
	Over    chan struct{} // closed when its answer is there, or its leader has left without one
	Refused any           // a try that has failed, with the votes; nil: there is no answer
	Err     error         // why it has failed
}

// EnterFlight lets a try to the state of its key, unless another one is out there. Otherwise the caller
// is in the flight f. If ahead is not nil it leads that, and holds the state, to Depart when that try
// is over. Open is false if no try is let in.
func (ks *Keys) EnterFlight(op *Operation) (f *Flight, ahead *Operation, open bool) {
	op.Done = make(chan struct{})
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if ks.shut {
		return nil, nil, false
	}
	l := ks.of(op.Key.(string), len(op.board().Nodes))
	switch {
	case l.out == nil || !l.out.undecided():
		l.out = op
	case l.next == nil:
		l.next = &Flight{Over: make(chan struct{})}
		ks.flights.Add(1)
		f, ahead = l.next, l.out
	default:
		return l.next, nil, true
	}
	op.state = l
	l.users++
	return f, ahead, true
}

// Depart lets the flight that op leads leave, or without it if it does not go on: then the flight
// has no answer.
func (ks *Keys) Depart(op *Operation, goes bool) {
	ks.mu.Lock()
	l := op.state
	f := l.next
	l.next = nil
	if goes {
		l.out = op
	}
	ks.mu.Unlock()
	ks.flights.Add(-1)
	if !goes {
		close(f.Over)
		ks.Leave(l)
	}
}

// Stay keeps the key of a try whose votes were split, and that nobody else of this Locker tries,
// until it is settled. It returns what gives the key up again.
func (ks *Keys) Stay(op *Operation) (leave func()) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	l := ks.of(op.Hold.lane, len(op.board().Nodes))
	l.users++
	if l.out == nil { // all nodes had answered, so that the key was given up
		l.out = op
	}
	return func() { ks.Leave(l) }
}

// Forming returns the flight for key that has not left yet, or nil.
func (ks *Keys) Forming(key string) *Flight {
	if ks.flights.Load() == 0 {
		return nil
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if l := ks.byKey[key]; l != nil {
		return l.next
	}
	return nil
}

// undecided reports whether nobody knows yet what comes of a try, its later rounds included.
func (op *Operation) undecided() bool {
	if !isClosed(op.Done) {
		return true
	}
	contest := op.Hold.Contest // nobody writes to it any more
	return contest != nil && !isClosed(contest.Over)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
