package redlock

import (
	"context"
	"math"
	"slices"
	"time"
)

// wantedPeriod is how often a Locker looks for waiters, on behalf of a lock that asks for them.
const wantedPeriod = time.Second / 2

// Wanted returns a channel that is closed once somebody waits for one of the lock's keys: another call of this
// Locker, or another Locker. So long work can yield at a safe point. The first call begins to look, twice a
// second until the lock is over, by one small command to one node.
//
// The channel is advice. A waiter is told of within half a second, or as many as there are nodes if it cannot
// listen at some. Waiters of other libraries, or that can listen nowhere ([NodeMuted]), stay unheard.
func (l *Lock) Wanted() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted == nil {
		l.wanted = make(chan struct{})
		l.locker.work.start(l.listen) // a closed Locker has no waiters
	}
	return l.wanted
}

// listen closes the channel of [Lock.Wanted] once somebody waits for one of the keys.
func (l *lease) listen() {
	board, keys := l.locker.board, l.names()
	for turn := 0; l.hold.Ended() == nil; turn++ {
		at := board.Nodes[turn%len(board.Nodes)]
		if l.waitedFor() || at.Announces() && slices.Contains(board.Listening(at, keys), true) {
			close(l.wanted)
			return
		}
		if !board.Rest(context.Background(), wantedPeriod) {
			return
		}
	}
}

// names are the keys by the nodes' names, as releases announce them.
func (l *lease) names() []string {
	names := []string{l.hold.Acquire.Key.(string)}
	if several := l.hold.Many; several != nil {
		for _, key := range several.Others() {
			names = append(names, key.(string))
		}
	}
	return names
}

// waitedFor reports whether a call of this Locker waits for one of the keys.
func (l *lease) waitedFor() bool {
	keys := l.keys()
	return slices.ContainsFunc(keys, l.lines().Has) || l.lines().HasSet(keys, nil, math.MaxInt)
}
