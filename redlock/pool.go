package redlock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A pool is shared by all callers of a Locker for one semaphore: the line of waiters, and our knowledge of
// each slot, so that a try asks for a slot that is likely to be free. The knowledge is advice: only the
// nodes' votes for a slot make a holder.
type pool struct {
	locker    *Locker
	key       string
	semaphore *protocol.Semaphore
	kind      kind          // of an acquire without chosen slots
	lines     waiting.Lines // one line, for the semaphore's key
	all       []slot

	mu sync.Mutex // guards the slots
}

// pools are the pools of all semaphores in use, by name.
type pools struct {
	mu     sync.Mutex
	byName map[poolName]weak.Pointer[pool]
}

type poolName struct {
	key     string
	permits int
}

// of returns the slots of a semaphore. They are forgotten when nobody has the semaphore or a permit of it
// any more.
func (m *pools) of(l *Locker, key string, permits int) *pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := poolName{key, permits}
	if s := m.byName[name].Value(); s != nil {
		return s
	}
	s := newPool(l, key, permits)
	if m.byName == nil {
		m.byName = make(map[poolName]weak.Pointer[pool])
	}
	m.byName[name] = weak.Make(s)
	runtime.AddCleanup(s, m.forget, name)
	return s
}

// forget drops the name of unused slots, unless a new pool has the name.
func (m *pools) forget(name poolName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byName[name].Value() == nil {
		delete(m.byName, name)
	}
}

func newPool(l *Locker, key string, permits int) *pool {
	s := &pool{
		locker: l, key: key, semaphore: protocol.NewSemaphore(l.options.prefix+key, permits),
		all: make([]slot, permits),
	}
	s.lines = waiting.Lines{Site: &l.site, Host: poolHost{host{l}, s}}
	s.kind = kind{pool: s, try: s.try}
	for i, at := range s.semaphore.Slots {
		s.all[i] = slot{pool: s, number: i, seen: perhaps, alone: slotSet{&s.all[i]}}
		s.all[i].kind = kind{Kind: at, pool: s, slots: s.all[i].alone}
	}
	return s
}

// several is the kind of an acquire of n slots as one lock, before it has chosen them.
func (s *pool) several(permits int) *kind {
	if permits == 1 {
		return &s.kind
	}
	return &kind{pool: s, permits: permits, try: s.try}
}

// try asks for slots that are likely to be free, and after a refusal for the slots that the nodes name as
// free. It returns the last attempt.
func (s *pool) try(ctx context.Context, r request, waits bool) (*lease, error) {
	tried := make([]bool, len(s.all))
	for at := s.begin(r.kind.permits, tried, true); ; {
		of := r
		if of.kind = &at[0].kind; r.kind.permits > 0 {
			of.kind = &kind{Kind: s.semaphore.Together(at.numbers()), pool: s, permits: r.kind.permits, slots: at}
		}
		lock, err := s.locker.tryOne(ctx, of, waits)
		s.end(at)
		if err == nil || lock == nil || !taken(err) || ctx.Err() != nil || s.locker.closed() {
			return lock, err
		}
		if kept := s.learn(lock); kept || !s.exclude(tried, at) {
			return lock, err
		}
		if at = s.begin(r.kind.permits, tried, false); at == nil {
			return lock, err
		}
		lock.hold.Last().Dismiss()
	}
}

// begin chooses the slots of a try, at random among the likeliest that are not excluded. It returns nil if
// there are not enough: the first try takes any, to ask the nodes.
func (s *pool) begin(permits int, excluded []bool, first bool) (chosen slotSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := unlikely
	if !first {
		least = likely
	}
	missing := max(1, permits)
	for want := surely; missing > 0 && want >= least; want-- {
		var best slotSet
		for i := range s.all {
			if at := &s.all[i]; !excluded[i] && at.chance() == want {
				best = append(best, at)
			}
		}
		for ; missing > 0 && len(best) > 0; missing-- {
			i := int(s.locker.board.Jitter(time.Duration(len(best))))
			chosen = append(chosen, best[i])
			best = slices.Delete(best, i, i+1)
		}
		if want == unlikely {
			break
		}
	}
	if missing > 0 {
		return nil
	}
	slices.SortFunc(chosen, func(a, b *slot) int { return a.number - b.number })
	for _, at := range chosen {
		at.tries++
	}
	return chosen
}

// end notes the end of a try.
func (s *pool) end(tried slotSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range tried {
		at.tries--
	}
}

// exclude excludes the slots of a try from the next try: of several slots, the unlikely ones. It reports
// whether there was one.
func (s *pool) exclude(excluded []bool, tried slotSet) (some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range tried {
		if len(tried) == 1 || at.chance() < likely {
			excluded[at.number], some = true, true
		}
	}
	return some
}

// learn takes in the refusing nodes' answers about all slots. A slot is free unless so many nodes have a
// token there that the others are no quorum. It reports whether as many nodes keep slots for a waiter for
// several.
func (s *pool) learn(refused *lease) (kept bool) {
	t := refused.hold.Last().Tally()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		told, taken := 0, 0
		for _, v := range t.Votes {
			if slots := v.Refusal.Slots; i < len(slots) {
				told++
				if slots[i] == '1' {
					taken++
				}
			}
		}
		switch {
		case told == 0:
		case taken > len(t.Votes)-t.Need:
			s.all[i].seen = unlikely
		default:
			s.all[i].seen = likely
		}
	}
	keep := 0
	for _, v := range t.Votes {
		if v.Refusal.Keeps > 0 {
			keep++
		}
	}
	return keep > len(t.Votes)-t.Need
}

// A poolHost is the Locker for waiters for any slot of a semaphore.
type poolHost struct {
	host
	pool *pool
}

// HolderOf returns nil: nobody waits for one holder alone.
func (poolHost) HolderOf(string) waiting.Holder { return nil }

// Channels are the channels of all slots, and the line's.
func (h poolHost) Channels(string) (channels []string) {
	for i := range h.pool.all {
		channels = append(channels, protocol.WakeChannel+h.pool.all[i].kind.KeyName)
	}
	return append(channels, protocol.WakeChannel+h.pool.semaphore.Line())
}

// Heard notes which slot is free.
func (h poolHost) Heard(channel int) {
	if channel < len(h.pool.all) {
		h.pool.all[channel].alone.free(likely)
	}
}
