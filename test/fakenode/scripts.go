package fakenode

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// script runs a script that is known by its digest, or comes along.
func (f *Node) script(args []any) driver.Reply {
	for _, s := range []struct {
		*scripts.Script
		run func(f *Node, args []any) driver.Reply
	}{
		{scripts.Release, (*Node).release},
		{scripts.Hold, (*Node).holds},
		{scripts.Extend, (*Node).extend},
		{scripts.Slot, (*Node).slot},
		{scripts.Take, (*Node).take},
		{scripts.Leave, (*Node).leave},
		{scripts.Share, (*Node).share},
		{scripts.Unshare, (*Node).unshare},
		{scripts.Raise, (*Node).raise},
		{scripts.Waits, (*Node).keepWaits},
		{scripts.Remember, (*Node).remember},
	} {
		f.Loaded[s.Digest] = f.Loaded[s.Digest] || args[1] == s.Source
		switch {
		case args[1] == s.Source, args[1] == s.Digest && f.Loaded[s.Digest]:
			return s.run(f, args[2:])
		case args[1] == s.Digest:
			return Refusal("NOSCRIPT No matching script.")
		}
	}
	return Refusal("ERR a script that the fake does not know")
}

// keysAndRest splits the arguments of a script into keys and others.
func keysAndRest(args []any) (keys, argv []string) {
	for _, arg := range args[1:] {
		argv = append(argv, arg.(string))
	}
	count, _ := strconv.Atoi(args[0].(string))
	return argv[:count], argv[count:]
}

func anys(texts []string) (all []any) {
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// keep runs the function of that name.
func (f *Node) keep(key, line string) {
	if all := f.Line(line); len(all) > 0 && all[0][0] != 's' {
		t := f.Lines[line][all[0]]
		if soon := f.Now().Add(acquire.TicketLife); soon.Before(t.Until) {
			t.Until = soon
		}
		f.AddTicket(line, all[0], t.Rank, t.Until.Sub(f.Now()))
		f.Keys[key] = Key{"ql:line " + all[0], t.Until}
	}
}

// has is what a script finds at a key: one that is kept is missing.
func (f *Node) has(key string) (held Key, ok bool) {
	if held, ok = f.Get(key); protocol.Kept(held.Token) {
		return Key{}, false
	}
	return held, ok
}

// holds runs the script that does.
func (f *Node) holds(args []any) driver.Reply {
	if held, _ := f.Get(args[1].(string)); held.Token == List {
		return wrongType
	}
	return integer(f.lease(args[1:]))
}

// lease is what that script does: key, token, milliseconds and, if there is one, the token
// that is given away.
func (f *Node) lease(args []any) int64 {
	key, token, ms := args[0].(string), args[1].(string), args[2].(string)
	held, ok := f.has(key)
	if len(args) > 3 && ok && held.Token == args[3].(string) && held.Token != token {
		f.set(key, token, ms)
		return 3 // taken over
	}
	switch {
	case !ok:
		f.set(key, token, ms)
		return 2 // set anew
	case held.Token != token:
		return 0
	}
	if until := f.expiry(ms); until.After(held.Until) {
		f.Keys[key] = Key{token, until}
	}
	return 1
}

// extend runs the script of that name: count, keys, tokens, milliseconds.
func (f *Node) extend(args []any) driver.Reply {
	count, _ := strconv.Atoi(args[0].(string))
	keys, tokens, times := args[1:1+count], args[1+count:1+2*count], args[1+2*count:]
	for _, key := range keys {
		if held, _ := f.Get(key.(string)); held.Token == List {
			return wrongType
		}
	}
	reply := driver.Reply{Kind: driver.Integer}
	for i := range count {
		if f.lease([]any{keys[i], tokens[i], times[i]}) > 0 {
			reply.Int += 1 << i
		}
	}
	return reply
}

// release runs the script of that name: count, keys, tokens, channel, always.
func (f *Node) release(args []any) driver.Reply {
	count, _ := strconv.Atoi(args[0].(string))
	channel := args[1+2*count:]
	listeners := f.toTell(channel)
	deleted, refused := listeners<<32, false
	for i := range count {
		key, token := args[1+i].(string), args[1+count+i].(string)
		if held, _ := f.Get(key); held.Token != token {
			continue
		}
		delete(f.Keys, key)
		deleted += 1 << i
		if listeners > 0 || len(channel) == 0 {
			refused = f.announce(key, channel)
		}
	}
	if refused {
		deleted = -1 - deleted
	}
	return integer(deleted)
}

// announce runs the function of that name.
func (f *Node) announce(key string, channel []any) (refused bool) {
	if len(channel) == 0 || !f.Mute && f.publish(channel[0].(string)+key) > 0 && len(channel) == 1 {
		f.keep(key, protocol.LineOf(key).(string))
	}
	return f.Mute && len(channel) > 0
}

// toTell is how many listeners a release counts whose arguments end with the channel, or with that and
// "always", or with neither. Where the user may not count them the script takes them for one.
func (f *Node) toTell(channel []any) int64 {
	switch {
	case len(channel) == 0:
		return 0
	case len(channel) > 1, f.Mute:
		return 1
	}
	return f.listening(channel[0].(string))
}

// take runs the script of that name: how many keys; keys, sets of counters, lines and lines held;
// token, milliseconds, how many are keys, number; and of one who heeds those in line rank, ticket,
// how long it stays, whether he works under locks, and the channel.
func (f *Node) take(args []any) driver.Reply {
	keys, argv := keysAndRest(args)
	count, _ := strconv.Atoi(argv[2])
	keys, sets := keys[:count], keys[count:]
	lines := sets
	if argv[3] != "0" {
		sets, lines = sets[:count], sets[count:]
	} else {
		sets = nil
	}
	var way []driver.Reply
	blocks := func(i int, by string, left int64) {
		if way == nil {
			way = []driver.Reply{integer(int64(i + 1)), bulk(by), integer(left), integer(f.Now().UnixMicro())}
		}
	}
	mine := true
	for i, key := range keys {
		switch held, ok := f.has(key); {
		case ok && held.Token == List:
			return array(integer(int64(i + 1)))
		case !ok:
			mine = false
		case held.Token != argv[0]:
			mine = false
			blocks(i, held.Token, held.Until.Sub(f.Now()).Milliseconds())
		}
	}
	first, some, free := int64(1), false, -1
	if len(argv) > 4 && !mine {
		rank, _ := strconv.ParseInt(argv[4], 10, 64)
		l := &asker{own: argv[5], rank: rank, under: argv[7] == "1", held: lines[count:]}
		for i, key := range keys {
			ticket, soon, others, passed := f.before(lines[i], l)
			if some = some || others; ticket != "" || passed {
				first = 0
			}
			if ticket == "" {
				continue
			}
			if _, ok := f.has(key); !ok {
				blocks(i, "ql:line "+ticket, soon)
				if free < 0 && ticket[0] != 's' {
					free = i
				}
			}
		}
		if argv[6] != "0" {
			for i, line := range lines[:count] {
				if _, there := f.Lines[line][argv[5]]; way == nil && count == 1 && there {
					delete(f.Lines[line], argv[5])
					f.tell(keys[i], line, argv[8], argv[0])
				} else if (way != nil || count > 1) && f.put(line, argv[5], rank, milliseconds(argv[6])) && some && count == 1 {
					f.displaces(keys[0], line, argv[5], argv[8])
				}
			}
		}
	}
	if way != nil {
		if free >= 0 {
			f.tell(keys[free], lines[free], argv[8], "")
			f.keep(keys[free], lines[free])
		}
		if len(argv) > 4 && argv[6] != "0" {
			first += 2
		}
		return array(append(way, integer(first))...)
	}
	said := int64(1)
	if some {
		said++
	}
	if !f.accepts(anys(sets), anys(keys), argv[3]) {
		said = -said
	}
	for _, key := range keys {
		f.lease([]any{key, argv[0], argv[1]})
	}
	return integer(said)
}

// leave runs the script of that name: keys and their lines; ticket, channel and token; and rank, ticket and
// milliseconds of the next.
func (f *Node) leave(args []any) driver.Reply {
	keys, argv := keysAndRest(args)
	said := int64(1)
	if argv[2] != "" {
		if held, ok := f.Get(keys[0]); ok && held.Token == argv[2] {
			delete(f.Keys, keys[0])
		} else {
			said = 0
		}
	}
	keys, lines := keys[:len(keys)/2], keys[len(keys)/2:]
	for i, key := range keys {
		delete(f.Lines[lines[i]], argv[0])
		if len(argv) > 3 {
			rank, _ := strconv.ParseInt(argv[3], 10, 64)
			if f.put(lines[i], argv[4], rank, milliseconds(argv[5])) {
				f.displaces(key, lines[i], argv[4], argv[1])
			}
		}
		held, ok := f.has(key)
		if ok = ok && key != lines[i]; !ok {
			held.Token = ""
		}
		back := argv[2] != "" && len(argv) > 3
		if !back {
			f.tell(key, lines[i], argv[1], held.Token)
		}
		if !ok && key != lines[i] {
			delete(f.Keys, key)
			f.keep(key, lines[i])
		}
		names := map[string]bool{}
		for _, ticket := range f.Line(lines[i]) {
			names[nameOf(ticket)] = true
		}
		if !ok && !back && f.listening(argv[1]+key) > int64(len(names)) {
			f.publish(argv[1] + key)
		}
	}
	return integer(said)
}

// accepts counts a number for keys, as scripts do.
func (f *Node) accepts(sets, keys []any, number string) bool {
	all := true
	for i, set := range sets {
		p, _ := strconv.ParseInt(number, 10, 64)
		above := f.Fences[set.(string)][""] < p
		all = above && f.counter([]any{"ZADD", set, "GT", "CH", number, keys[i]}).Int == 1 && all
	}
	return all
}

// slot runs the script of that name: how many keys; slots, the permits, the line, sets of counters,
// slots to look at; token, milliseconds, the number of permits, how many slots, number; of one who
// heeds those in line rank, ticket, how long it stays, and how many somebody may want.
func (f *Node) slot(args []any) driver.Reply {
	all, _ := strconv.Atoi(args[0].(string))
	keys, argv := args[1:1+all], args[1+all:]
	arg := func(i int) string {
		if i >= len(argv) {
			return ""
		}
		return argv[i].(string)
	}
	count, _ := strconv.Atoi(arg(3))
	slots, permits, line, look := keys[:count], keys[count].(string), keys[count+1].(string), keys[count+2:]
	var sets []any
	if arg(4) != "0" {
		sets, look = look[:count], look[count:]
	}
	counted, ok := f.Get(permits)
	if ok && counted.Token != arg(2) {
		return bulk(counted.Token)
	}
	inTheWay, mine := []string(nil), true
	for _, key := range slots {
		held, ok := f.Get(key.(string))
		mine = mine && ok && held.Token == arg(0)
		if ok && held.Token != arg(0) {
			inTheWay = append(inTheWay, strings.TrimPrefix(held.Token, List))
		}
	}
	kept := int64(0)
	if arg(5) != "" && !mine {
		rank, _ := strconv.ParseInt(arg(5), 10, 64)
		most, _ := strconv.Atoi(arg(8))
		ticket, left, others, _ := f.before(line, &asker{own: arg(6), rank: rank, most: most})
		if ticket != "" {
			kept, inTheWay = left, append(inTheWay, "ql:line "+ticket)
		} else if others {
			kept = -1
		}
		if arg(7) != "0" {
			f.AddTicket(line, arg(6), rank, milliseconds(arg(7)))
		}
	}
	if len(inTheWay) > 0 {
		least, there := int64(-1), ""
		for _, key := range look {
			other, ok := f.Get(key.(string))
			if !ok {
				there += "0"
				continue
			}
			there += "1"
			if left := other.Until.Sub(f.Now()).Milliseconds(); least < 0 || left < least {
				least = left
			}
		}
		return array(bulk(inTheWay[0]), integer(least), bulk(there), integer(f.Now().UnixMicro()), integer(kept))
	}
	said := int64(1)
	for _, key := range slots {
		said = max(said, f.lease([]any{key, arg(0), arg(1)}))
	}
	if !f.accepts(sets, slots, arg(4)) {
		said = 0
	}
	ms, _ := strconv.ParseInt(arg(1), 10, 64)
	until := f.Now().Add(2 * time.Duration(ms) * time.Millisecond)
	if counted.Until.After(until) {
		until = counted.Until
	}
	f.Keys[permits] = Key{arg(2), until}
	return integer(said)
}

// share runs the script of that name: count, keys, milliseconds, mode, number; to join rank,
// ticket, how long that stays and whether somebody works under locks; tokens and, in two of the
// modes, the token that is converted.
func (f *Node) share(args []any) driver.Reply {
	count, _ := strconv.Atoi(args[0].(string))
	keys, argv := args[1:1+count], args[1+count:]
	key, set, line := keys[0].(string), keys[1].(string), ""
	ttl, mode, number, tokens := argv[0].(string), argv[1].(string), argv[2], argv[3:]
	counted, held := number != "0", keys[2:]
	if mode == "join" {
		line, held = held[0].(string), held[1:]
	}
	var counters any
	if counted {
		counters, held = held[0], held[1:]
	}
	has, ok := f.has(key)
	if has.Token == List {
		return wrongType
	}
	ticket, kept := "", int64(0)
	if mode == "join" {
		rank, _ := strconv.ParseInt(tokens[0].(string), 10, 64)
		l := &asker{own: tokens[1].(string), rank: rank, under: tokens[3] == "1"}
		for _, other := range held {
			l.held = append(l.held, other.(string))
		}
		var others bool
		if ticket, kept, others, _ = f.before(line, l); ticket == "" && others {
			kept = -1
		}
		if tokens[2] != "0" {
			f.AddTicket(line, l.own, rank, milliseconds(tokens[2].(string)))
		}
		if ticket != "" && !ok {
			f.keep(key, line)
		}
		tokens = tokens[4:]
	}
	var old any
	if mode == "turn" || mode == "back" {
		old, tokens = tokens[len(tokens)-1], tokens[:len(tokens)-1]
	}
	turns := ok && any(has.Token) == old
	reply := func(bits int64, number driver.Reply, holder *Key) driver.Reply {
		who, left := driver.Reply{}, time.Duration(0)
		if holder != nil {
			who, left = bulk(holder.Token), holder.Until.Sub(f.Now())
		}
		return array(integer(bits), number, who, integer(left.Milliseconds()), integer(kept), integer(f.Now().UnixMicro()))
	}
	switch {
	case mode == "back" && !ok:
		return array(integer(0), driver.Reply{}, driver.Reply{}, integer(-2), integer(kept), integer(f.Now().UnixMicro()))
	case ok && has.Token != protocol.SharedValue && !turns, mode == "back" && !turns:
		return reply(0, driver.Reply{}, &has)
	}
	until := f.expiry(ttl)
	if turns && has.Until.After(until) {
		until = has.Until
	}
	shared := has.Token == protocol.SharedValue
	var way *Key
	if ticket != "" {
		way = &Key{"ql:line " + ticket, f.Now().Add(time.Duration(kept) * time.Millisecond)}
	}
	if !shared {
		delete(f.Readers, set)
	}
	var bits int64
	for i, token := range tokens {
		own := f.Readers[set][token.(string)]
		if way != nil && !f.reads(own) {
			continue
		}
		if f.Readers[set] == nil {
			f.Readers[set] = map[string]time.Time{}
		}
		if until.After(own) {
			f.Readers[set][token.(string)] = until
		}
		bits |= 1 << i
	}
	if bits == 0 {
		return reply(0, driver.Reply{}, way)
	}
	f.Keys[key] = Key{protocol.SharedValue, f.lastReader(set)}
	counter := driver.Reply{}
	if counted {
		how := "GT"
		if mode == "join" {
			how = "NX"
		}
		f.counter([]any{"ZADD", counters, how, number, key})
		counter = f.counter([]any{"ZSCORE", counters, key})
		if f.Floor(key) > f.Fence(key) {
			counter = f.counter([]any{"ZSCORE", counters, ""})
		}
	}
	return reply(bits, counter, way)
}

// reads reports whether a reader still does whose lease ends then: scripts count whole milliseconds, and
// the last one, too.
func (f *Node) reads(until time.Time) bool { return until.UnixMilli() >= f.Now().UnixMilli() }

// lastReader is when the lease of the last reader ends.
func (f *Node) lastReader(set string) (last time.Time) {
	for _, until := range f.Readers[set] {
		if until.After(last) {
			last = until
		}
	}
	return last
}

// unshare runs the script of that name: count, keys, count, tokens, channel, always.
func (f *Node) unshare(args []any) driver.Reply {
	key, set := args[1].(string), args[2].(string)
	count, _ := strconv.Atoi(args[3].(string))
	tokens, channel := args[4:4+count], args[4+count:]
	held, _ := f.Get(key)
	shared := held.Token == protocol.SharedValue
	var gone int64
	free := false
	for i, token := range tokens {
		until := f.Readers[set][token.(string)]
		delete(f.Readers[set], token.(string))
		switch {
		case shared && f.reads(until):
			gone |= 1 << i
		case !shared && held.Token == token:
			delete(f.Keys, key)
			gone |= 1 << i
			free = true
		}
	}
	if last := f.lastReader(set); shared && gone > 0 {
		if free = !f.reads(last); free {
			delete(f.Keys, key)
			delete(f.Readers, set)
		} else {
			f.Keys[key] = Key{protocol.SharedValue, last}
		}
	}
	listeners := f.toTell(channel)
	gone += listeners << 32
	if free && (listeners > 0 || len(channel) == 0) && f.announce(key, channel) {
		gone = -1 - gone
	}
	return integer(gone)
}

// raise runs the script of that name: count, keys, reader, writer, milliseconds.
func (f *Node) raise(args []any) driver.Reply {
	key, set := args[1].(string), args[2].(string)
	reader, writer, ms := args[3].(string), args[4].(string), args[5].(string)
	held, ok := f.has(key)
	if held.Token == List {
		return wrongType
	}
	alive := 0
	for _, until := range f.Readers[set] {
		if f.reads(until) {
			alive++
		}
	}
	alone := held.Token == protocol.SharedValue && alive == 1 && f.reads(f.Readers[set][reader])
	if ok && held.Token != writer && !alone {
		return array(integer(0), bulk(held.Token), integer(held.Until.Sub(f.Now()).Milliseconds()))
	}
	until := f.expiry(ms)
	if held.Until.After(until) {
		until = held.Until
	}
	delete(f.Readers, set)
	f.Keys[key] = Key{writer, until}
	return array(integer(1))
}

// score is what ZSCORE says of a reader.
func (f *Node) score(readers map[string]time.Time, token string) driver.Reply {
	until, there := readers[token]
	if !there {
		return driver.Reply{}
	}
	return bulk(strconv.FormatFloat(float64(until.UnixMilli()), 'g', 17, 64))
}

// Sharers returns the tokens that share a key at the node, in order.
func (f *Node) Sharers(key string) (tokens []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if held, _ := f.Get(key); held.Token != protocol.SharedValue {
		return nil
	}
	for token, until := range f.Readers[protocol.Beside(protocol.RoleReaders, key)] {
		if f.reads(until) {
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	return tokens
}

// keepWaits runs the script of that name: the hash; the field, what it says, and for how long.
// Nonces are fields of their own here.
func (f *Node) keepWaits(args []any) driver.Reply {
	args = args[1:]
	name := args[0].(string)
	if f.Waits[name] == nil {
		f.Waits[name] = map[string]Key{}
	}
	hash := f.Waits[name]
	if len(args) > 1 {
		delete(hash, args[1].(string))
		if says := args[2].(string); says != "" {
			hash[args[1].(string)] = Key{says, f.expiry(args[3].(string))}
		}
	}
	elems := []driver.Reply{integer(f.Now().UnixMicro()), bulk("")}
	for field, held := range hash {
		switch {
		case !f.Now().Before(held.Until):
			delete(hash, field)
		case strings.HasPrefix(field, "nonce:"):
			elems[1].Str += " " + held.Token
		case len(args) == 1:
			elems = append(elems, bulk(field), bulk(held.Token))
		}
	}
	return array(elems...)
}
