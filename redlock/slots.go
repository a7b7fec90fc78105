package redlock

// A slot is a permit of a semaphore.
type slot struct {
	pool   *pool
	number int
	kind   kind
	alone  slotSet // this slot by itself

	// Guarded by of.mu.
	seen   chance
	holder *lease // a permit of this Locker; nil: none
	tries  int    // of this Locker, under way
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
	unlikely chance = iota // seen taken, or this Locker has it or tries for it
	perhaps
	likely // a node has named it as free
	surely // this Locker has released it, and heard of nobody since
)

// A slotSet is slots of one semaphore, in order, which a lease has or asks for.
type slotSet []*slot

// numbers are those of the slots; nil: there are none.
func (ps slotSet) numbers() []int {
	if ps == nil {
		return nil
	}
	numbers := make([]int, len(ps))
	for i, at := range ps {
		numbers[i] = at.number
	}
	return numbers
}

// begin notes that l holds the slots.
func (ps slotSet) begin(l *lease) { ps.note(func(at *slot) { at.holder = l }) }

// end notes that l no longer holds them.
func (ps slotSet) end(l *lease) {
	ps.note(func(at *slot) {
		if at.holder == l {
			at.holder, at.seen = nil, perhaps
		}
	})
}

// free notes that the slots are free.
func (ps slotSet) free(how chance) { ps.note(func(at *slot) { at.seen = max(at.seen, how) }) }

func (ps slotSet) note(what func(*slot)) {
	for _, at := range ps {
		at.pool.mu.Lock()
		what(at)
		at.pool.mu.Unlock()
	}
}
