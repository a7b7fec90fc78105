package inspect

import "hash/maphash"

// A seen is which locks were found already: a lock has its name at several nodes, and a node may show
// a name twice. It remembers a bounded number of hashes.
type seen struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
	bound  int
}

func newSeen(bound int) *seen {
	return &seen{maphash.MakeSeed(), make(map[uint64]struct{}), bound}
}

// add notes a candidate. It reports whether the candidate is to be looked at, and whether it is remembered.
func (s *seen) add(p candidate) (fresh, remembered bool) {
	h := maphash.String(s.seed, p.key)
	if p.slot > 0 {
		h = ^h // a key may be a lock's and a semaphore's
	}
	if _, ok := s.hashes[h]; ok {
		return false, true
	}
	if len(s.hashes) == s.bound {
		return true, false
	}
	s.hashes[h] = struct{}{}
	return true, true
}

// elsewhere reports whether another candidate shows the same lock. Of candidates that are not remembered the
// one at the first node that has the lock shows it, and of a semaphore that of the first slot there.
func (v *survey) elsewhere(f found) bool {
	if f.once {
		return false
	}
	ways := f.slots
	if f.slot == 0 {
		ways = [][]sight{f.sights}
	}
	for i, s := range v.states {
		for slot, sights := range ways {
			if s.listed() && sights[i].held() {
				return i != f.node || f.slot > 0 && slot != f.slot-1
			}
		}
	}
	return true // it has gone
}
