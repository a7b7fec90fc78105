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

// slots are what all callers of a Locker share of one semaphore: the line of those who wait, and
// what is known of each slot, so that a try asks for one that is likely to be free. What is known
// is advice: only the nodes' votes for one slot make a holder.
type slots struct {
	locker    *Locker
	semaphore *protocol.Semaphore
	kind      kind          // of an acquire that has not chosen a slot
	lines     waiting.Lines // one, for the semaphore's key
	all       []slot

	listening sync.Mutex  // is held while listeners come and go
	watch     *slotsWatch // nil: nobody listens

	mu        sync.Mutex         // also guards what is in the slots
	keptTo    clockdrift.Instant // until then the nodes keep the slots for somebody who waits for several
	crowdedAt clockdrift.Instant // when somebody was last seen to wait for several
}

// A slot is one place of a semaphore.
type slot struct {
	of    *slots
	place int
	kind  kind
	alone places // it

	// Guarded by of.mu.
	seen   chance
	holder *lease // a permit of this Locker; nil: none
	tries  int    // of this Locker that are under way
}

// semaphores are the slots of all semaphores that are in use, by name.
type semaphores struct {
	mu     sync.Mutex
	byName map[semaphoreName]weak.Pointer[slots]
}

type semaphoreName struct {
	key     string
	permits int
}

// of returns the slots of a semaphore. They are forgotten when nobody has the semaphore or one of
// its permits any more.
func (m *semaphores) of(l *Locker, key string, permits int) *slots {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := semaphoreName{key, permits}
	if s := m.byName[name].Value(); s != nil {
		return s
	}
	s := newSlots(l, key, permits)
	if m.byName == nil {
		m.byName = make(map[semaphoreName]weak.Pointer[slots])
	}
	m.byName[name] = weak.Make(s)
	runtime.AddCleanup(s, m.forget, name)
	return s
}

// waiters is how many wait for a permit.
func (m *semaphores) waiters() (count int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pointer := range m.byName {
		if s := pointer.Value(); s != nil {
			count += s.lines.Waiters()
		}
	}
	return count
}

// forget drops the name of slots that are gone, unless others have it by now.
func (m *semaphores) forget(name semaphoreName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byName[name].Value() == nil {
		delete(m.byName, name)
	}
}

func newSlots(l *Locker, key string, permits int) *slots {
	s := &slots{
		locker: l, semaphore: protocol.NewSemaphore(l.options.prefix+key, permits),
		all: make([]slot, permits),
	}
	s.kind = kind{slots: s, try: s.try}
	for i, at := range s.semaphore.Slots {
		s.all[i] = slot{of: s, place: i, seen: perhaps, alone: places{&s.all[i]}}
		s.all[i].kind = kind{Kind: at, slots: s, lease: s.all[i].lease}
	}
	return s
}

// several is the kind of an acquire of so many slots as one lock, which has not chosen them.
func (s *slots) several(permits int) *kind { return &kind{slots: s, permits: permits, try: s.try} }

// lease makes what an acquire of the slot hands out.
func (at *slot) lease() *lease {
	p := new(struct {
		Permit
		body lease
	})
	p.body.places = at.alone
	return p.init(&p.body, &p.Permit)
}

// places are slots of one semaphore, in order, that one lease has or asks for.
type places []*slot

// lease makes what an acquire of the slots as one lock hands out.
func (ps places) lease() *lease {
	p := new(struct {
		Permits
		body lease
	})
	p.body.places = ps
	return p.init(&p.body, &p.Permits)
}

// numbers are those of the slots.
func (ps places) numbers() []int {
	numbers := make([]int, len(ps))
	for i, at := range ps {
		numbers[i] = at.place
	}
	return numbers
}

// try asks for slots that are likely to be free, and after a refusal for those that the nodes say
// are. It returns the last attempt.
func (s *slots) try(ctx context.Context, key string, o *acquireOptions, waits bool, bound *clockdrift.Instant) (*lease, error) {
	tried := make([]bool, len(s.all))
	for at := s.begin(o.kind.permits, tried, true); ; {
		k := &at[0].kind
		if o.kind.permits > 0 {
			k = &kind{Kind: s.semaphore.Together(at.numbers()), slots: s, permits: o.kind.permits, lease: at.lease}
		}
		lock, err := s.locker.tryOne(ctx, key, o.as(k), waits, bound)
		s.end(at)
		if err == nil || lock == nil || !taken(err) || ctx.Err() != nil || s.locker.closed() {
			return lock, err
		}
		if kept := s.learn(lock); kept || !s.exclude(tried, at) {
			return lock, err
		}
		if at = s.begin(o.kind.permits, tried, false); at == nil {
			return lock, err
		}
		lock.last().Dismiss()
	}
}

// begin chooses the slots of a try, at random among those that are not excluded and that are the
// likeliest to be free. It returns nil if there are not enough: at first any will do, to ask the nodes.
func (s *slots) begin(permits int, excluded []bool, first bool) (chosen places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := unlikely
	if !first {
		least = likely
	}
	missing := max(1, permits)
	for want := surely; missing > 0 && want >= least; want-- {
		var best places
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
	slices.SortFunc(chosen, func(a, b *slot) int { return a.place - b.place })
	for _, at := range chosen {
		at.tries++
	}
	return chosen
}

// end notes that a try is over.
func (s *slots) end(tried places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range tried {
		at.tries--
	}
}

// exclude excludes the slots of a try from the next one: of several, those that are not likely to be
// free. It reports whether there was one.
func (s *slots) exclude(excluded []bool, tried places) (some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range tried {
		if len(tried) == 1 || at.chance() < likely {
			excluded[at.place], some = true, true
		}
	}
	return some
}

// chance says how likely a try for the slot is to get it. of.mu is held.
func (at *slot) chance() chance {
	if at.holder != nil || at.tries > 0 {
		return unlikely
	}
	return at.seen
}

// A chance is how likely a slot is to be free.
type chance uint8

const (
	unlikely chance = iota // it was seen to be taken, or this Locker has it or tries for it
	perhaps
	likely // a node has said that it is free
	surely // this Locker has released it, and heard of nobody since
)

// learn takes what the nodes that refused an attempt say of all slots. One is free unless so many
// have somebody there that the others are no quorum. It reports whether as many keep the slots for somebody
// who waits for several.
func (s *slots) learn(refused *lease) (kept bool) {
	refused.attempt.Mu.Lock()
	defer refused.attempt.Mu.Unlock()
	t := refused.last().Tally()
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
	keep, longest := 0, time.Duration(0)
	for _, v := range t.Votes {
		if v.Reply != nil && v.Reply.Kept() > 0 {
			keep, longest = keep+1, max(longest, v.Reply.Kept())
		}
	}
	now := s.locker.clock.Now()
	if keep > 0 {
		s.crowdedAt = now
	}
	if kept = keep > len(t.Votes)-t.Need; kept {
		s.keptTo = now.Add(min(longest, waiting.MarkLife))
	}
	return kept
}

// keep notes that the nodes keep the slots for somebody who waits for several, for so long from now; 0:
// they do not, or not for him.
func (s *slots) keep(stays time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crowdedAt = s.locker.clock.Now()
	s.keptTo = s.crowdedAt.Add(stays)
}

// kept reports whether the nodes keep the slots for somebody who waits for several. Who has one here
// gives it to him, and not to the next in line.
func (ps places) kept() bool {
	if ps == nil {
		return false
	}
	s := ps[0].of
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locker.clock.Now() < s.keptTo
}

// begin notes that l holds the slots.
func (ps places) begin(l *lease) {
	for _, at := range ps {
		at.of.mu.Lock()
		at.holder = l
		at.of.mu.Unlock()
	}
}

// end notes that l does not hold them any more.
func (ps places) end(l *lease) {
	for _, at := range ps {
		at.of.mu.Lock()
		if at.holder == l {
			at.holder, at.seen = nil, perhaps
		}
		at.of.mu.Unlock()
	}
}

// free notes that the slots are free.
func (ps places) free(how chance) {
	for _, at := range ps {
		at.of.mu.Lock()
		at.seen = max(at.seen, how)
		at.of.mu.Unlock()
	}
}
