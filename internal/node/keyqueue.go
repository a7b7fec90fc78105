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

// More are the queues of the further keys of a request that is about several. It comes to the
// front of all of them before it leaves, and leaves all of them at once.
type More struct {
	queues []*KeyQueues
	places [][]place // by the request's index among the question's requests
}

// NewMore returns the places of so many requests in these queues.
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

// at returns the queue of one of r's keys, and its place there.
func (r *Request) at(n *Node, i int) (*keyQueue, *place) {
	if i == 0 {
		return &r.Keys.at[n.Index], &r.place
	}
	return &r.More.queues[i-1].at[n.Index], &r.More.places[r.Index][i-1]
}

// enter puts r in the queues of its keys, all at once: so any two requests with several keys have
// one order in all the queues that they share, and never wait for each other. n.mu is held.
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

// lead makes p the front of its queue. A request that is in front of all its queues goes in that
// for the next batch. n.mu is held.
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

// stepBack puts the front of a queue, which has not left, before all tries that wait. n.mu is held.
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

// withdraw takes r, which has its answer, out of its queues, and lets those go ahead that wait
// behind it where it is in front. It returns those that a closed node strands. Among the holders it
// stays until the queue comes to it: while it is there no later one goes before the try that it
// waited behind, in any of its queues, or requests about several keys could wait for each other.
// n.mu is held.
func (n *Node) withdraw(r *Request) (stranded []*Request) {
	if r.place.Request == nil { // it was never there
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

// A keyQueue is who may go to one node with a command for the key, one at a time.
//
// Holders go before tries that have not left: otherwise a process that asks for a key more
// often than a node answers would starve its own holder, whose renewal and release would wait
// behind all of its tries. Requests with one token stay in their order, or a release could run
// before the acquire that it undoes.
type keyQueue struct {
	front   *place    // the one whose turn it is
	holders placeList // what goes next: extensions, releases, hand-overs
	tries   placeList // acquires, and what has to stay behind one of them
}

// A place is a request's in one queue.
type place struct {
	*Request
	list          *placeList // it waits in this one; nil: it does not wait
	ahead, behind *place     // who waits there before and after it
}

// yields reports whether the request in front makes way for r, which is a holder's: a try that has
// not left, unless r or what waits already stays behind it.
func (q *keyQueue) yields(r *Request) bool {
	f := q.front
	return f.late && (f.stage == queued || f.stage == waiting) && !f.Concerns(&r.Part) && !q.holders.has(f.Request)
}

// next takes out the place whose turn is next, or nil. Requests that have an answer, and are about
// to be taken out, are stepped over.
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

// A placeList is a first-in, first-out list of the requests that wait. One that is not needed any
// more is taken out wherever it is: those that wait for a node that is far away would keep
// their locks in memory, and everybody who comes would look at them.
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

// leave takes p out of the list in which it waits, if there is one.
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
