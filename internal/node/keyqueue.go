package node

// KeyQueues are the queues, one a node, in which the commands for one key go one after another. Several
// batches are out on several connections, so that order has to be made: without it a release overtakes its
// acquire, or a retry is refused by its own previous try.
type KeyQueues struct {
	Key string
	at  []keyQueue // by node, each guarded by its node's mutex
}

// NewKeyQueues returns the queues of one key at n nodes.
func NewKeyQueues(key string, nodes int) *KeyQueues {
	return &KeyQueues{Key: key, at: make([]keyQueue, nodes)}
}

// More are the queues of a request's further keys. The request leaves when it is in front of all its queues,
// and leaves all of them at once.
type More struct {
	queues []*KeyQueues
	places [][]place // by the request's index among the question's requests
}

// NewMore returns places for n requests in these queues.
func NewMore(queues []*KeyQueues, requests int) *More {
	m := &More{queues: queues, places: make([][]place, requests)}
	for i := range m.places {
		m.places[i] = make([]place, len(queues))
	}
	return m
}

// width is in how many queues r waits.
func (r *Request) width() int {
	if r.More == nil {
		return 1
	}
	return 1 + len(r.More.queues)
}

// at returns the i-th of r's queues, and r's place there.
func (r *Request) at(n *Node, i int) (*keyQueue, *place) {
	if i == 0 {
		return &r.Keys.at[n.Index], &r.place
	}
	return &r.More.queues[i-1].at[n.Index], &r.More.places[r.Index][i-1]
}

// enter puts r in the queues of its keys, all at once: any two requests with several keys have the same
// order in all queues that they share, and never wait for each other. n.mu is held.
func (n *Node) enter(r *Request) {
	r.late = r.Op.Tries
	for i := 0; i < r.width() && !r.late; i++ {
		q, _ := r.at(n, i)
		r.late = q.tries.has(r)
	}
	n.behind++
	for i := range r.width() {
		q, p := r.at(n, i)
		p.Request = r
		switch {
		case q.front == nil:
			n.lead(q, p)
		case !r.late && q.yields(r):
			n.stepBack(q)
			n.lead(q, p)
		case r.late:
			q.tries.push(p)
		default:
			q.holders.push(p)
		}
	}
}

// lead makes p the front of its queue. A request in front of all its queues goes into the queue for the next
// batch. n.mu is held.
func (n *Node) lead(q *keyQueue, p *place) {
	if n.come(q, p) {
		n.enqueue(p.Request)
	}
}

// come makes p the front of its queue, and reports whether its request is in front of all of them.
// n.mu is held.
func (n *Node) come(q *keyQueue, p *place) bool {
	q.front = p
	if p.fronts++; p.fronts < p.width() {
		return false
	}
	n.behind--
	return true
}

// stepBack puts the front of a queue, before its leaving, ahead of all waiting tries. n.mu is held.
func (n *Node) stepBack(q *keyQueue) {
	f := q.front
	if f.stage == queued {
		n.channel(f.Request).queue.remove(f.Request)
		f.stage = waiting
		n.behind++
	}
	f.fronts--
	q.tries.unpop(f)
}

// withdraw takes an answered request r out of its queues; where r was the front, the requests behind it go
// ahead. It returns the requests that a closed node strands.
//
// Among the holders r stays until the queue comes to it: meanwhile no later request goes before the try that
// r waited behind, in any of its queues, or requests about several keys could wait for each other. n.mu is
// held.
func (n *Node) withdraw(r *Request) (stranded []*Request) {
	if r.place.Request == nil { // it never entered
		return nil
	}
	n.channel(r).queue.remove(r)
	if r.fronts < r.width() {
		n.behind--
	}
	for i := range r.width() {
		q, p := r.at(n, i)
		if q.front != p {
			if p.list == &q.tries {
				p.leave()
			}
			continue
		}
		switch next := q.next(); {
		case next == nil:
			q.front = nil
		case n.closed:
			n.come(q, next)
			stranded = append(stranded, next.Request)
		default:
			n.lead(q, next)
		}
	}
	return stranded
}

// A keyQueue decides whose command for the key goes to a node next.
//
// Holders go before tries that have not left: otherwise a process that asks for a key more often than a node
// answers would starve its own holder, whose renewal and release would wait behind all of its tries.
// Requests with one token keep their order, or a release could run before the acquire that it undoes.
type keyQueue struct {
	front   *place    // goes now, or is on its way
	holders placeList // go next: extensions, releases, hand-overs
	tries   placeList // acquires, and requests that have to stay behind one of them
}

// A place is the place of a request in one queue.
type place struct {
	*Request
	list          *placeList // nil: the place is in no list
	ahead, behind *place     // its neighbours in the list
}

// yields reports whether the front makes way for the holder's request r: the front is a try that has not
// left, unless r or a waiting request of its token stays behind it.
func (q *keyQueue) yields(r *Request) bool {
	f := q.front
	return f.late && (f.stage == queued || f.stage == waiting) && !f.Concerns(&r.Part) && !q.holders.has(f.Request)
}

// next takes out the place whose turn is next, or nil. It steps over answered requests, which are about to
// be taken out.
func (q *keyQueue) next() *place {
	for {
		p := q.holders.pop()
		if p == nil {
			p = q.tries.pop()
		}
		if p == nil || p.stage != final {
			return p
		}
	}
}

// A placeList is a first-in, first-out list of waiting requests. A request that is no longer needed leaves
// from anywhere: else requests for a distant node would keep their locks in memory, and every newcomer would
// step over them.
type placeList struct {
	first, last *place
	count       int
}

func (l *placeList) push(p *place) { l.insert(p, l.last, nil) }

// unpop puts p in front.
func (l *placeList) unpop(p *place) { l.insert(p, nil, l.first) }

func (l *placeList) insert(p, ahead, behind *place) {
	p.list, p.ahead, p.behind = l, ahead, behind
	if ahead == nil {
		l.first = p
	} else {
		ahead.behind = p
	}
	if behind == nil {
		l.last = p
	} else {
		behind.ahead = p
	}
	l.count++
}

func (l *placeList) pop() *place {
	p := l.first
	if p != nil {
		p.leave()
	}
	return p
}

// leave takes p out of its list, if p is in a list.
func (p *place) leave() {
	l := p.list
	if l == nil {
		return
	}
	if p.ahead == nil {
		l.first = p.behind
	} else {
		p.ahead.behind = p.behind
	}
	if p.behind == nil {
		l.last = p.ahead
	} else {
		p.behind.ahead = p.ahead
	}
	l.count--
	p.list, p.ahead, p.behind = nil, nil, nil
}

// has reports whether a request with the token of r waits.
func (l *placeList) has(r *Request) bool {
	for other := l.first; other != nil; other = other.behind {
		if other.Concerns(&r.Part) {
			return true
		}
	}
	return false
}
