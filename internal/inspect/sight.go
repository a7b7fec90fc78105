package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A sight is what one node says of one key. It has whole tokens, which stay in this package.
type sight struct {
	value   string          // what the key holds; "": nothing, or see odd
	odd     bool            // the key is there, and holds no string
	left    time.Duration   // until the node forgets the key; 0: nothing is there, or see endless
	endless bool            // the key has no expiry
	readers []reader        // of a key that is shared: those whose lease is not over there
	fence   int64           // the greatest that the node has accepted for the key; 0: none, or it has forgotten it
	waits   []protocol.Edge // of those who have the key, and wait for others
	now     time.Time       // by the node's clock
	inLine  int             // how many Lockers wait in line for the key, or its permits
	permits string          // how many permits the semaphore of the key has; "": it is none
	err     error           // why the node does not say
}

// A reader is one of those that share a key.
type reader struct {
	token string
	left  time.Duration // 0: the node does not tell its time
}

// held reports whether the key is there.
func (s *sight) held() bool { return s.value != "" || s.odd }

// A question is one about a key.
type question int

// The questions.
const (
	askValue question = iota
	askLeft
	askReaders
	askFence
	askPermits
	askWaits
	askLine
	askPool
	questions
)

var (
	aboutAll = []question{askValue, askLeft, askReaders, askFence, askPermits, askWaits, askLine, askPool}
	// Of a lock that has one holder nobody needs the readers, nor the permits.
	aboutLocks = []question{askValue, askLeft, askFence, askWaits, askLine}
)

// args are those of the command that asks it, in front of more.
func (q question) args(more []any, key string, boxed any) []any {
	switch q {
	case askValue:
		return append(more, "GET", boxed)
	case askLeft:
		return append(more, "PTTL", boxed)
	case askReaders:
		return append(more, "ZRANGE", protocol.Beside(protocol.RoleReaders, key), "0", "-1", "WITHSCORES")
	case askFence:
		return append(more, "ZSCORE", protocol.FenceSet(key), boxed)
	case askPermits:
		return append(more, "GET", protocol.Beside(protocol.RolePermits, key))
	case askLine:
		return append(append(more, "ZRANGEBYSCORE", protocol.LineOf(key)), inLine...)
	case askPool:
		return append(append(more, "ZRANGEBYSCORE", protocol.Beside(protocol.RolePool, key)), inLine...)
	default:
		return append(more, "HGETALL", protocol.Beside(protocol.RoleWaits, key))
	}
}

// inLine asks until when tickets count, of more than anybody counts at once.
var inLine = []any{"-inf", "(" + protocol.LeastRank, "WITHSCORES", "LIMIT", "0", "1000"}

// An inquiry is what nodes are asked about keys, in one round trip. It is the same for all of them.
type inquiry struct {
	cmds []driver.Command
	asks []question
	keys int
}

// newInquiry asks about keys, which are as the nodes know them.
func newInquiry(asks []question, keys ...string) *inquiry {
	q := &inquiry{append(make([]driver.Command, 0, 1+len(keys)*len(asks)), protocol.AskTime), asks, len(keys)}
	args := make([]any, 0, 8*len(keys)*len(asks)) // of all, which is one allocation
	for _, key := range keys {
		var boxed any = key
		for _, ask := range asks {
			from := len(args)
			args = ask.args(args, key, boxed)
			q.cmds = append(q.cmds, driver.Command{Args: args[from:len(args):len(args)], FirstKey: 1, Keys: 1})
		}
	}
	return q
}

// see puts an inquiry to the node. The error is that of the node; a key that it refuses has its
// own.
func (t *target) see(ctx context.Context, within time.Duration, q *inquiry) ([]sight, error) {
	replies, err := t.ask(ctx, within, q.cmds...)
	if err != nil {
		return nil, err
	}
	now, _ := protocol.ReadTime(replies[0]) // untold: all readers count
	replies = replies[1:]
	sights := make([]sight, q.keys)
	for i := range sights {
		var about [questions]driver.Reply
		for j, ask := range q.asks {
			about[ask] = replies[i*len(q.asks)+j]
		}
		sights[i] = readSight(about[:], now)
	}
	return sights, nil
}

// readSight reads the replies about one key; to what was not asked they are nil. Who has no rights
// to what is beside the key does not see it; readers must be seen.
func readSight(replies []driver.Reply, now time.Time) (s sight) {
	value, left := replies[askValue], replies[askLeft]
	switch {
	case protocol.Says(value, "WRONGTYPE"):
		s.odd = true
	case value.Kind == driver.String && protocol.Kept(value.Str): // for the first in line: nobody has it
	case value.Kind == driver.String:
		s.value, s.odd = value.Str, value.Str == ""
	case value.Kind != driver.Nil:
		return sight{err: protocol.Unexpected(value)}
	}
	if left.Kind != driver.Integer {
		return sight{err: protocol.Unexpected(left)}
	}
	if s.held() {
		s.endless, s.left = left.Int == -1, time.Duration(min(max(0, left.Int), protocol.MaxTTL.Milliseconds()))*time.Millisecond
	}
	if s.value == protocol.SharedValue && replies[askReaders].Kind != driver.Nil { // which is: not asked
		if replies[askReaders].Kind != driver.Array {
			return sight{err: fmt.Errorf("its readers: %w", protocol.Unexpected(replies[askReaders]))}
		}
		s.readers = readReaders(replies[askReaders], now)
	}
	if fence, err := strconv.ParseFloat(replies[askFence].Str, 64); err == nil && fence >= 0 {
		s.fence = int64(min(fence, protocol.MaxFence))
	}
	if permits := replies[askPermits]; permits.Kind == driver.String {
		s.permits = permits.Str
	}
	s.now = now
	s.waits = protocol.StoredEdges(flat(replies[askWaits]), now)
	s.inLine = protocol.Tickets(flat(replies[askLine]), now) + protocol.Tickets(flat(replies[askPool]), now)
	return s
}

// readReaders reads tokens and the ends of their leases, by the clock of the node: pairs in RESP3,
// and one list in RESP2.
func readReaders(reply driver.Reply, now time.Time) (readers []reader) {
	pairs := flat(reply)
	for i := 0; i+1 < len(pairs); i += 2 {
		ends, err := strconv.ParseFloat(pairs[i+1], 64)
		if err != nil || now.Unix() > 0 && ends < float64(now.UnixMilli()) {
			continue
		}
		r := reader{token: pairs[i]}
		if now.Unix() > 0 {
			r.left = time.UnixMilli(int64(ends)).Sub(now)
		}
		readers = append(readers, r)
	}
	return readers
}

// flat is a list of pairs: those are lists in RESP3, and one list in RESP2.
func flat(reply driver.Reply) (all []string) {
	for _, e := range reply.Elems {
		if e.Kind == driver.Array {
			for _, part := range e.Elems {
				all = append(all, part.Str)
			}
			continue
		}
		all = append(all, e.Str)
	}
	return all
}
