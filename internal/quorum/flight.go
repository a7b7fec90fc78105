package quorum

// A Flight is a try for a key on behalf of all callers of this Locker that asked for the key during the try
// before. The nodes see one try a key and round trip, however many callers ask here. Its answer counts for
// callers that came before it left; later callers are in the next flight. The first caller leads: it waits
// until the try before is over, and then asks the nodes for all.
//
// Only refusals are shared. A lock goes to the leader, and the others get the answer that the nodes would
// have given right behind it.
type Flight struct {
	Over    chan struct{} // closed with the answer, or when the leader has left without one
	Refused any           // a failed try, with the votes; nil: there is no answer
	Err     error         // why the try failed
}

// EnterFlight lets a try to the state of its key, unless another one is under way. Otherwise the caller is
// in the flight f. If ahead is not nil the caller leads f, and holds the state, to Depart when the try ahead
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

// Depart makes the flight leave with op; nil: the leader gives up, and the flight has no answer.
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

// Stay keeps the key of a try with split votes, where no other try of this Locker is under way, until the
// split is settled. It returns the function that gives the key up again.
func (ks *Keys) Stay(op *Operation) (leave func()) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	l := ks.of(op.Hold.lane, len(op.board().Nodes))
	l.users++
	if l.out == nil { // all nodes had answered, and the key was given up
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

// undecided reports whether the outcome of a try is open, its later rounds included.
func (op *Operation) undecided() bool {
	if !isClosed(op.Done) {
		return true
	}
	contest := op.Hold.Contest // final by now
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
