package node

// KeyQueues are the single files in which the commands for one key go to each node. With several
// batches out on several connections, order does not come by itself; without it a release
// overtakes its acquire, or a retry is refused by its own previous try.
type KeyQueues struct {
	Key string
	at  []keyQueue // by node, each guarded by its node's mutex
}

// NewKeyQueues returns those of one key at so many nodes.
func NewKeyQueues(key string, nodes int) *KeyQueues {
	return &KeyQueues{Key: key, at: make([]keyQueue, nodes)}
}

// A keyQueue is who may go to one node with a command for the key, one at a time.
//
// Holders go before tries that have not left: otherwise a process that asks for a key more
// often than a node answers would starve its own holder, whose renewal and release would stand
// behind all of its tries. Requests with one token stay in their order, or a release could run
// before the acquire that it undoes.
type keyQueue struct {
	front   *Request    // the one whose turn it is
	holders requestList // what goes next: extensions, releases, hand-overs
	tries   requestList // acquires, and what has to stay behind one of them
}

// add lets r wait for its turn.
func (q *keyQueue) add(r *Request) {
	if r.Op.Tries || q.tries.has(r) {
		q.tries.push(r)
	} else {
		q.holders.push(r)
	}
}

// yields reports whether the request in front makes way for r: a try that has not left.
func (q *keyQueue) yields(r *Request) bool {
	f := q.front
	return f.Op.Tries && f.stage == queued && !r.Op.Tries && !f.Concerns(&r.Part) && !q.tries.has(r)
}

// next takes out the request whose turn is next, or nil. Requests that ran out of time are
// stepped over.
func (q *keyQueue) next() *Request {
	for {
		r := q.holders.pop()
		if r == nil {
			r = q.tries.pop()
		}
		if r == nil || r.stage != final {
			return r
		}
	}
}

// A requestList is a first-in, first-out list of the requests that wait.
type requestList struct{ first, last *Request }

func (l *requestList) push(r *Request) {
	r.behind = nil
	if l.last == nil {
		l.first = r
	} else {
		l.last.behind = r
	}
	l.last = r
}

// unpop puts r in front.
func (l *requestList) unpop(r *Request) {
	r.behind = l.first
	l.first = r
	if l.last == nil {
		l.last = r
	}
}

func (l *requestList) pop() *Request {
	r := l.first
	if r == nil {
		return nil
	}
	if l.first = r.behind; l.first == nil {
		l.last = nil
	}
	r.behind = nil
	return r
}

// has reports whether a request with the token of r waits.
func (l *requestList) has(r *Request) bool {
	for other := l.first; other != nil; other = other.behind {
		if other.Concerns(&r.Part) {
			return true
		}
	}
	return false
}
