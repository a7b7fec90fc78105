package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// MaxPermits is the most permits of a semaphore.
const MaxPermits = protocol.MaxPermits

// A candidate is what is to be looked at: a key, as the nodes know it, or the semaphore of a key.
type candidate struct {
	key  string
	node int  // in whose scan it was seen
	slot int  // of the semaphore that was seen there, from 1; 0: it is the key itself
	once bool // no other candidate shows the same
}

// A found is a candidate, and what each node has there.
type found struct {
	candidate
	sights []sight   // of the key
	slots  [][]sight // of the semaphore
}

// chunk is how many keys are asked for in one round trip.
const chunk = 500

// look asks all nodes about candidates.
func (v *survey) look(ctx context.Context, candidates []candidate) []found {
	page := make([]found, len(candidates))
	var locks, others []*found
	for i, p := range candidates {
		f := &page[i]
		if f.candidate = p; p.slot == 0 && len(v.Keys) == 0 {
			locks = append(locks, f)
		} else {
			others = append(others, f)
		}
	}
	v.see(ctx, aboutLocks, locks)
	var shared []*found
	for _, f := range locks {
		if slices.ContainsFunc(f.sights, func(s sight) bool { return s.value == protocol.SharedValue }) {
			shared = append(shared, f)
		}
	}
	v.see(ctx, aboutAll, shared)
	v.see(ctx, aboutAll, others)
	var slots []string
	for _, f := range others {
		count := permits(f.sights)
		if count == 0 && f.slot > 0 {
			count = MaxPermits // nobody says how many there are
		}
		count = max(count, f.slot)
		for i := range count {
			slots = append(slots, protocol.SlotKey(f.key, i))
		}
		f.slots = make([][]sight, count)
	}
	sights := v.read(ctx, aboutLocks, slots)
	for _, f := range others {
		sights = sights[copy(f.slots, sights):]
	}
	return slices.DeleteFunc(page, v.elsewhere)
}

// see asks all nodes about the keys of candidates.
func (v *survey) see(ctx context.Context, asks []question, candidates []*found) {
	keys := make([]string, len(candidates))
	for i, f := range candidates {
		keys[i] = f.key
	}
	for i, sights := range v.read(ctx, asks, keys) {
		candidates[i].sights = sights
	}
}

// read asks all nodes about keys, at the same time and at the rate.
func (v *survey) read(ctx context.Context, asks []question, keys []string) (all [][]sight) {
	for part := range slices.Chunk(keys, chunk) {
		q := newInquiry(asks, part...)
		sights := make([][]sight, len(part))
		row := make([]sight, len(part)*len(v.states))
		for i := range sights {
			sights[i], row = row[:len(v.states):len(v.states)], row[len(v.states):]
		}
		v.wait(ctx)
		v.each(func(i int) {
			s := v.states[i]
			got, err := v.targets[i].see(ctx, v.within(), q)
			if s.err = v.unanswered(err); err != nil {
				return
			}
			for j := range got {
				if sights[j][i] = got[j]; got[j].err == nil {
					s.told = true
				} else if s.refused == nil {
					s.refused = got[j].err
				}
			}
		})
		for i, s := range v.states {
			for j := range sights {
				if s.err != nil {
					sights[j][i] = sight{err: s.err}
				}
			}
		}
		all = append(all, sights...)
		v.asked(len(part))
	}
	return all
}

// permits is how many permits most nodes count for a semaphore; 0: the key is none.
func permits(sights []sight) (count int) {
	votes := make(map[int]int)
	for i := range sights {
		if n, err := strconv.Atoi(sights[i].permits); err == nil && n > 0 && n <= MaxPermits {
			votes[n]++
		}
	}
	for n := range votes {
		if votes[n] > votes[count] || votes[n] == votes[count] && n > count {
			count = n
		}
	}
	return count
}

// judgeAll says what the nodes' words about a page come to.
func (v *survey) judgeAll(page []found) []KeyStatus {
	keys := []KeyStatus{}
	named := len(v.Keys) > 0
	for i := range page {
		f := &page[i]
		s, used := v.semaphore(f)
		if named || f.slot == 0 {
			k := v.judge(f.key[len(v.Prefix):], f.sights)
			switch {
			case !named && noLock(f.sights):
				v.report.Others++
			case k.State != KeyFree, named && !used:
				keys = append(keys, k)
			}
		}
		if used {
			keys = append(keys, s)
		}
	}
	return keys
}

// semaphore judges the slots of a key. It reports whether any is in use.
func (v *survey) semaphore(f *found) (k KeyStatus, used bool) {
	k = KeyStatus{Key: f.key[len(v.Prefix):], State: KeyPermits, Permits: permits(f.sights), Votes: []VoteStatus{}, Left: new(float64)}
	var left []*float64
	for i, sights := range f.slots {
		slot := v.judge(k.Key, sights)
		if slot.State == KeyFree {
			continue
		}
		slot.Slot = &i
		k.Permits, k.Slots = max(k.Permits, i+1), append(k.Slots, slot)
		if slot.Left == nil || *slot.Left > 0 {
			k.Taken, left = k.Taken+1, append(left, slot.Left)
		}
		k.Fault = cmp.Or(k.Fault, slot.Fault)
	}
	if k.Taken >= k.Permits {
		k.Left = soonest(left)
	}
	k.Text = fmt.Sprintf("%d of %d permits", k.Taken, k.Permits)
	return k, len(k.Slots) > 0
}

// soonest is the least of times, of which nil is never.
func soonest(times []*float64) (least *float64) {
	for _, t := range times {
		if t != nil && (least == nil || *t < *least) {
			least = t
		}
	}
	return least
}
