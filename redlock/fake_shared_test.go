package redlock

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// share runs the script of that name: count, keys, milliseconds, mode, with a set of counters a
// number, tokens and, in two of the modes, the token that is converted.
func (f *fakeNode) share(args []any) driver.Reply {
	count, _ := strconv.Atoi(args[0].(string))
	keys, argv := args[1:1+count], args[1+count:]
	key, set, mark := keys[0].(string), keys[1].(string), keys[2].(string)
	ttl, mode, tokens := argv[0].(string), argv[1].(string), argv[2:]
	counted := count > 3
	var number any
	if counted {
		number, tokens = tokens[0], tokens[1:]
	}
	var old any
	if mode == "turn" || mode == "back" {
		old, tokens = tokens[len(tokens)-1], tokens[:len(tokens)-1]
	}
	held, ok := f.get(key)
	turns := ok && any(held.token) == old
	reply := func(bits int64, number driver.Reply, holder *fakeKey) driver.Reply {
		who, left := driver.Reply{}, time.Duration(0)
		if holder != nil {
			who, left = driver.Reply{Kind: driver.String, Str: holder.token}, holder.until.Sub(f.now())
		}
		return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.Integer, Int: bits}, number, who, {Kind: driver.Integer, Int: left.Milliseconds()}}}
	}
	switch {
	case held.token == aList:
		return wrongType
	case mode == "back" && !ok:
		return reply(0, driver.Reply{}, nil)
	case ok && held.token != protocol.SharedValue && !turns, mode == "back" && !turns:
		return reply(0, driver.Reply{}, &held)
	}
	until := f.expiry(ttl)
	if turns && held.until.After(until) {
		until = held.until
	}
	shared := held.token == protocol.SharedValue
	marked, waits := f.get(mark)
	waits = waits && mode == "join" && strings.HasPrefix(marked.token, "ql:")
	if !shared {
		delete(f.readers, set)
	}
	var bits int64
	for i, token := range tokens {
		own, there := f.readers[set][token.(string)]
		if waits && (!there || !own.After(f.now())) {
			continue
		}
		if f.readers[set] == nil {
			f.readers[set] = map[string]time.Time{}
		}
		if until.After(own) {
			f.readers[set][token.(string)] = until
		}
		bits |= 1 << i
	}
	if bits == 0 {
		return reply(0, driver.Reply{}, &marked)
	}
	f.keys[key] = fakeKey{protocol.SharedValue, f.lastReader(set)}
	counter := driver.Reply{}
	if counted {
		how := "GT"
		if mode == "join" {
			how = "NX"
		}
		f.counter([]any{"ZADD", keys[3], how, number, key})
		counter = f.counter([]any{"ZSCORE", keys[3], key})
		if f.floor(key) > f.fence(key) {
			counter = f.counter([]any{"ZSCORE", keys[3], ""})
		}
	}
	return reply(bits, counter, nil)
}

// lastReader is when the lease of the last reader ends.
func (f *fakeNode) lastReader(set string) (last time.Time) {
	for _, until := range f.readers[set] {
		if until.After(last) {
			last = until
		}
	}
	return last
}

// unshare runs the script of that name: count, keys, count, tokens, channel, always.
func (f *fakeNode) unshare(args []any) driver.Reply {
	key, set := args[1].(string), args[2].(string)
	count, _ := strconv.Atoi(args[3].(string))
	tokens, channel := args[4:4+count], args[4+count:]
	held, _ := f.get(key)
	shared := held.token == protocol.SharedValue
	var gone int64
	free := false
	for i, token := range tokens {
		until := f.readers[set][token.(string)]
		delete(f.readers[set], token.(string))
		switch {
		case shared && until.After(f.now()):
			gone |= 1 << i
		case !shared && held.token == token:
			delete(f.keys, key)
			gone |= 1 << i
			free = true
		}
	}
	if last := f.lastReader(set); shared && gone > 0 {
		if free = !last.After(f.now()); free {
			delete(f.keys, key)
			delete(f.readers, set)
		} else {
			f.keys[key] = fakeKey{protocol.SharedValue, last}
		}
	}
	if len(channel) == 0 {
		return driver.Reply{Kind: driver.Integer, Int: gone}
	}
	for s := range f.ears {
		if s.channels[protocol.WakeChannel] {
			gone += 1 << 32
		}
	}
	switch {
	case free && f.mute:
		gone = -1 - gone
	case free:
		f.publish(channel[0].(string) + key)
	}
	return driver.Reply{Kind: driver.Integer, Int: gone}
}

// raise runs the script of that name: count, keys, reader, writer, milliseconds.
func (f *fakeNode) raise(args []any) driver.Reply {
	key, set := args[1].(string), args[2].(string)
	reader, writer, ms := args[3].(string), args[4].(string), args[5].(string)
	held, ok := f.get(key)
	alive := 0
	for _, until := range f.readers[set] {
		if until.After(f.now()) {
			alive++
		}
	}
	alone := held.token == protocol.SharedValue && alive == 1 && f.readers[set][reader].After(f.now())
	if ok && held.token != writer && !alone {
		return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.Integer}, {Kind: driver.String, Str: held.token}, {Kind: driver.Integer, Int: held.until.Sub(f.now()).Milliseconds()}}}
	}
	until := f.expiry(ms)
	if held.until.After(until) {
		until = held.until
	}
	delete(f.readers, set)
	f.keys[key] = fakeKey{writer, until}
	return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.Integer, Int: 1}}}
}

// score is what ZSCORE says of a reader.
func (f *fakeNode) score(readers map[string]time.Time, token string) driver.Reply {
	until, there := readers[token]
	if !there {
		return driver.Reply{}
	}
	return driver.Reply{Kind: driver.String, Str: strconv.FormatFloat(float64(until.UnixMilli()), 'g', 17, 64)}
}

// sharers returns the tokens that share key "k" at the node, in order.
func (f *fakeNode) sharers() (tokens []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if held, _ := f.get("k"); held.token != protocol.SharedValue {
		return nil
	}
	for token, until := range f.readers["ql:readers:{k}"] {
		if until.After(f.now()) {
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	return tokens
}
