package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Holding is who has a key, as the nodes have said it at one moment. It has the holder's token,
// which it does not show.
type Holding struct {
	Key     string        // without the prefix; of a slot as well
	Slot    int           // of a semaphore; -1: the key is none
	Owner   string        // of the holder, by redlock.WithOwner; "": it has no name
	Mark    string        // the first digits of its token, which tell holders apart; "": see Foreign
	Shared  bool          // readers share it
	Readers int           // so many, at the node that has the most of them
	Foreign bool          // another library's lock, or one of redlock.WithToken
	Revoked bool          // it was taken from its holder: see [Revoke]
	Reason  string        // why
	At      int           // so many nodes say so
	Quorum  int           // so many make a lock
	Left    time.Duration // until a quorum of the nodes is free, if nothing is renewed; 0: nobody can tell
	Errs    []error       // of the nodes that did not say

	place   string // the key as the nodes know it
	value   string // what the holder has there; "": nobody has it
	held    bool
	readers []string
	endless bool // without an expiry
}

// Held reports whether anybody may have the key: a value that a quorum of the nodes has, or may
// have where some do not say.
func (h Holding) Held() bool { return h.held }

// String names the holder. It does not show the token.
func (h Holding) String() string {
	switch {
	case !h.held:
		return "nobody"
	case h.Revoked:
		return "a tombstone"
	case h.Shared:
		return fmt.Sprintf("%d readers who share it", h.Readers)
	case h.Foreign:
		return "another library's lock"
	case h.Owner != "":
		return h.Owner + " (" + h.Mark + "…)"
	}
	return "a holder without a name (" + h.Mark + "…)"
}

// GoString is String, so that no format shows the token.
func (h Holding) GoString() string { return h.String() }

// maxReaders is how many readers of a node are remembered: those whose leases end last.
const maxReaders = 64

// Look asks all nodes who has a key, or a slot of the semaphore of that name; -1: the key itself. It
// changes nothing, takes at most 1s, and is safe to call at any time. The error matches
// redlock.ErrNoQuorum if too few nodes answer, and redlock.ErrOption if the key is not valid.
func Look(ctx context.Context, nodes []driver.Node, key string, slot int, set Settings) (Holding, error) {
	h := Holding{Key: key, Slot: slot, Quorum: len(nodes)/2 + 1, place: set.Prefix + key}
	if key == "" {
		return h, fmt.Errorf("%w: key: it is empty", fault.ErrOption)
	}
	if err := set.checkKey(key); err != nil {
		return h, err
	}
	if slot >= 0 {
		h.place = protocol.SlotKey(h.place, slot)
	}
	sights := make([]sight, len(nodes))
	together(nodes, func(i int, n driver.Node) { sights[i] = h.at(ctx, n) }) // what has failed is in these
	if ctx.Err() != nil {
		return h, context.Cause(ctx)
	}
	h.sum(nodes, sights)
	if len(nodes)-len(h.Errs) < h.Quorum {
		return h, fmt.Errorf("who has %q: %w: %w", key, fault.ErrNoQuorum, errors.Join(h.Errs...))
	}
	return h, nil
}

// at asks one node.
func (h *Holding) at(ctx context.Context, n driver.Node) sight {
	sights, err := (&target{Node: n}).see(ctx, patience, newInquiry(aboutAll, h.place))
	switch {
	case err != nil:
		return sight{err: fault.Advise(err)}
	case sights[0].odd:
		return sight{err: errNoLock}
	}
	return sights[0]
}

var errNoLock = errors.New("the key holds something that is not a lock")

// sum works out who has the key.
func (h *Holding) sum(nodes []driver.Node, sights []sight) {
	count := make(map[string]int)
	var frees []time.Duration
	for i, w := range sights {
		switch {
		case w.err != nil:
			h.Errs = append(h.Errs, fmt.Errorf("%s: %w", nodes[i].Name, w.err))
		case !w.held():
			frees = append(frees, 0)
		default:
			count[w.value]++
			if !w.endless {
				frees = append(frees, w.left)
			}
		}
	}
	for value, n := range count {
		switch {
		case n+len(h.Errs) < h.Quorum:
		case n == h.At: // two may have it, or none
			h.held = false
		case n > h.At:
			h.held, h.At, h.value = true, n, value
		}
	}
	if slices.Sort(frees); len(frees) >= h.Quorum {
		h.Left = frees[h.Quorum-1]
	}
	if !h.held {
		return
	}
	for _, w := range sights {
		if w.value != h.value {
			continue
		}
		h.endless = h.endless || w.endless
		if h.Shared = h.value == protocol.SharedValue; h.Shared {
			h.Readers = max(h.Readers, len(w.readers))
			for _, r := range w.readers[max(0, len(w.readers)-maxReaders):] {
				h.readers = append(h.readers, r.token)
			}
		}
	}
	slices.Sort(h.readers)
	h.readers = slices.Compact(h.readers)
	h.Owner = protocol.Owner(h.value)
	h.Reason, h.Revoked = protocol.Revoked(h.value)
	if h.Foreign = !protocol.Marked(h.value); !h.Foreign && !h.Shared && !h.Revoked {
		h.Mark = protocol.Digits(h.value)
	}
}
