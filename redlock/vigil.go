package redlock

import "sync"

// A vigil listens at all nodes for the announcement that a key is free. Its news are that
// a quorum of the nodes lets it hear, upon which a try finds out what was missed, and that
// those which announced it, with those that a try found free, make a quorum.
type vigil struct {
	locker  *Locker
	channel string
	news    chan struct{}

	mu    sync.Mutex
	nodes []vigilNode
}

type vigilNode struct {
	hears bool
	free  bool // since the last try
}

// wakeChannel begins the names of the channels on which releases are announced.
const wakeChannel = "ql:free:"

// listen starts a vigil.
func (l *Locker) listen(key string) *vigil {
	v := &vigil{
		locker: l, channel: wakeChannel + l.options.prefix + key,
		news: make(chan struct{}, 1), nodes: make([]vigilNode, len(l.nodes)),
	}
	for _, n := range l.nodes {
		n.ear.add(v)
	}
	return v
}

// end gives up the vigil.
func (v *vigil) end() {
	for _, n := range v.locker.nodes {
		n.ear.remove(v)
	}
}

// arm begins to count the nodes that are free.
func (v *vigil) arm() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.nodes {
		v.nodes[i].free = false
	}
	select {
	case <-v.news:
	default:
	}
}

// found counts the nodes that a failed try has found free, and reports whether there is
// a quorum of such nodes now.
func (v *vigil) found(try *operation) bool {
	try.claim.mu.Lock()
	defer try.claim.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range try.requests {
		if try.requests[i].answer == Granted {
			v.nodes[i].free = true
		}
	}
	return v.most(isFree)
}

func isFree(n vigilNode) bool { return n.free }
func hears(n vigilNode) bool  { return n.hears }

// most reports whether a quorum of the nodes is so. v.mu is held.
func (v *vigil) most(is func(vigilNode) bool) bool {
	count := 0
	for _, n := range v.nodes {
		if is(n) {
			count++
		}
	}
	return count >= v.locker.quorum
}

// quorate reports whether an announcement would be heard.
func (v *vigil) quorate() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.most(hears)
}

// announced notes that a node has announced the key.
func (v *vigil) announced(node int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.most(isFree)
	v.nodes[node].free = true
	if !before && v.most(isFree) {
		v.wake()
	}
}

// confirmed notes whether announcements of a node are heard. It is news once a quorum is
// heard, for what was announced before nobody has heard, and once it is not any more.
func (v *vigil) confirmed(node int, heard bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.most(hears)
	v.nodes[node].hears = heard
	if v.most(hears) != before {
		v.wake()
	}
}

func (v *vigil) wake() {
	select {
	case v.news <- struct{}{}:
	default:
	}
}
