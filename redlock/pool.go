package redlock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A pool is what all callers of a Locker share of one semaphore: the line of waiters, and
// what is known of each slot, so that a try asks for one that is likely to be free. What is known
// is advice: only the nodes' votes for one slot make a holder.
type pool struct {
	locker    *Locker
	key       string
	semaphore *protocol.Semaphore
	kind      kind          // of an acquire that has not chosen a slot
	lines     waiting.Lines // one, for the semaphore's key
	all       []slot

	mu sync.Mutex // guards what is in the slots
}

// pools are those of all semaphores that are in use, by name.
type pools struct {
	mu     sync.Mutex
	byName map[poolName]weak.Pointer[pool]
}

type poolName struct {
	key     string
	permits int
}

// of returns the slots of a semaphore. They are forgotten when nobody has the semaphore or one of
// its permits any more.
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

// forget drops the name of slots that are gone, unless others have it by now.
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
	s.kind = kind{pool: s, try: s.try}
	for i, at := range s.semaphore.Slots {
		s.all[i] = slot{pool: s, number: i, seen: perhaps, alone: slotSet{&s.all[i]}}
		s.all[i].kind = kind{Kind: at, pool: s, lease: s.all[i].alone.lease}
	}
	return s
}

// several is the kind of an acquire of so many slots as one lock, which has not chosen them.
func (s *pool) several(permits int) *kind { return &kind{pool: s, permits: permits, try: s.try} }

// try asks for slots that are likely to be free, and after a refusal for those that the nodes say
// are. It returns the last attempt.
func (s *pool) try(ctx context.Context, r request, waits bool, bound *clockdrift.Instant) (*lease, error) {
	tried := make([]bool, len(s.all))
	for at := s.begin(r.kind.permits, tried, true); ; {
		of := r
		if of.kind = &at[0].kind; r.kind.permits > 0 {
			of.kind = &kind{Kind: s.semaphore.Together(at.numbers()), pool: s, permits: r.kind.permits, lease: at.lease}
		}
		lock, err := s.locker.tryOne(ctx, of, waits, bound)
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

// begin chooses the slots of a try, at random among those that are not excluded and that are the
// likeliest to be free. It returns nil if there are not enough: at first any will do, to ask the
// nodes.
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

// end notes that a try is over.
func (s *pool) end(tried slotSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range tried {
		at.tries--
	}
}

// exclude excludes the slots of a try from the next one: of several, those that are not likely to
// be free. It reports whether there was one.
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

// learn takes what the nodes that refused an attempt say of all slots. One is free unless so many
// have somebody there that the others are no quorum. It reports whether as many keep the slots for
// somebody who waits for several.
func (s *pool) learn(refused *lease) (kept bool) {
	t := refused.hold.Last().Tally()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		told, taken := 0, 0
		for _, v := range t.Votes {
			if v.Reply == nil {
				continue
			}
			if there, ok := v.Reply.SlotTaken(i); ok {
				told++
				if there {
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
		if v.Reply != nil && v.Reply.Kept() > 0 {
			keep++
		}
	}
	return keep > len(t.Votes)-t.Need
}

// A poolHost is the Locker as its waiters for any slot of a semaphore see it.
type poolHost struct {
	host
	pool *pool
}

// HolderOf returns nil: nobody waits for one holder alone.
func (poolHost) HolderOf(string) waiting.Holder { return nil }

// Channels are those of all slots, and that of the line.
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
