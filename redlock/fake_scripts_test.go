package redlock

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A fakeTicket is one in a line: see internal/scripts/line.lua.
type fakeTicket struct {
	rank  int64
	until time.Time
}

// A fakeLine is one who asks the lines of keys.
type fakeLine struct {
	own   string
	rank  int64
	under bool
	held  []string
	most  int // wants up to so many; 0: it does not matter
}

// line returns the tickets of a line that count, in order. f.mu is held.
func (f *fakeNode) line(name string) []string {
	line := f.lines[name]
	maps.DeleteFunc(line, func(_ string, t fakeTicket) bool { return !f.now().Before(t.until) })
	return slices.SortedFunc(maps.Keys(line), func(a, b string) int { return cmp.Or(cmp.Compare(line[a].rank, line[b].rank), cmp.Compare(a, b)) })
}

// before runs the function of that name.
func (f *fakeNode) before(name string, l *fakeLine) (ticket string, left int64, some, passed bool) {
	for _, ticket := range f.line(name) {
		if ticket == l.own {
			continue
		}
		t := f.lines[name][ticket]
		number, _ := strconv.Atoi(ticket[1:strings.IndexByte(ticket, ':')])
		waits := func(held string) bool { return f.lines[held][ticket] != fakeTicket{} }
		if l.rank > 0 && (t.rank > l.rank || t.rank == l.rank && ticket > l.own) ||
			ticket[0] == 's' && (slices.ContainsFunc(l.held, waits) || l.most > 0 && number > l.most) {
			return "", 0, true, passed
		}
		some = true
		since, soon := int64(0), int64(1<<40)
		switch {
		case ticket[0] == 'r' && l.own[0] == 'r':
			continue
		case ticket[0] == 's':
			since, soon = f.rests(t.rank)
		case ticket[0] == 'x' && l.own[0] == 'r' && l.under:
			since, soon = f.rests(t.rank + int64(number)*1e6)
		}
		if since == 0 || l.rank == 0 || l.rank >= since {
			return ticket, min(soon, t.until.Sub(f.now()).Milliseconds()), true, false
		}
		passed = true
	}
	return "", 0, some, passed
}

// rests runs the function of that name.
func (f *fakeNode) rests(rank int64) (since, soon int64) {
	micros, period := f.now().UnixMicro(), int64(48000)
	for micros-rank >= 16*period {
		period *= 2
	}
	since = micros - micros%period + period*2/3
	if micros >= since && micros-rank >= 8*period {
		return since, (since + period - micros + 999) / 1000
	}
	return 0, (max(since-micros, 8*period-micros+rank) + 999) / 1000
}

func (f *fakeNode) ticket(line, own string, rank int64, stays string) {
	if f.lines == nil {
		f.lines = map[string]map[string]fakeTicket{}
	}
	if f.lines[line] == nil {
		f.lines[line] = map[string]fakeTicket{}
	}
	f.lines[line][own] = fakeTicket{rank, f.expiry(stays)}
}

// tell runs the function of that name.
func (f *fakeNode) tell(key, line, channel, holder string) {
	for i, ticket := range f.line(line) {
		if i > 0 && ticket[0] != 'r' {
			break
		}
		says := strconv.FormatInt(f.lines[line][ticket].rank, 10)
		if holder == "" || ticket[0] == 'r' && holder == protocol.SharedValue {
			says += " free"
		}
		name, _, _ := strings.Cut(ticket[strings.IndexByte(ticket, ':')+1:], ".")
		f.publish(channel+key+" "+name, says)
		if ticket[0] != 'r' {
			break
		}
	}
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

// take runs the script of that name: how many keys; keys, sets of counters, lines and lines held;
// token, milliseconds, how many are keys, number; and of one who heeds those in line rank, ticket,
// how long it stays, whether he works under locks, and the channel.
func (f *fakeNode) take(args []any) driver.Reply {
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
			way = []driver.Reply{integer(int64(i + 1)), bulk(by), integer(left), integer(f.now().UnixMicro())}
		}
	}
	mine := true
	for i, key := range keys {
		switch held, ok := f.get(key); {
		case ok && held.token == aList:
			return array(integer(int64(i + 1)))
		case !ok:
			mine = false
		case held.token != argv[0]:
			mine = false
			blocks(i, held.token, held.until.Sub(f.now()).Milliseconds())
		}
	}
	first, left, some := int64(1), int64(0), false
	if len(argv) > 4 && !mine {
		rank, _ := strconv.ParseInt(argv[4], 10, 64)
		l := &fakeLine{own: argv[5], rank: rank, under: argv[7] == "1", held: lines[count:]}
		for i, key := range keys {
			ticket, soon, others, passed := f.before(lines[i], l)
			if some = some || others; ticket != "" || passed {
				first = 0
			}
			if ticket == "" {
				continue
			}
			if _, ok := f.get(key); !ok {
				blocks(i, "ql:line "+ticket, soon)
				if ticket[0] != 's' {
					f.tell(key, lines[i], argv[8], "")
				}
			}
		}
		if argv[6] != "0" && (argv[9] != "1" || some || f.listening(argv[8]+keys[0]) > 1) {
			for _, line := range lines[:count] {
				fresh := f.lines[line][argv[5]].rank != rank
				f.ticket(line, argv[5], rank, argv[6])
				if all := f.line(line); fresh && count == 1 && len(all) > 1 && all[0] == argv[5] {
					name, _, _ := strings.Cut(all[1][strings.IndexByte(all[1], ':')+1:], ".")
					f.publish(argv[8]+keys[0]+" "+name, strconv.FormatInt(f.lines[line][all[1]].rank, 10)+" behind")
				}
			}
			left = 2
		}
	}
	if way != nil {
		return array(append(way, integer(first+left))...)
	}
	said := 1 + left
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

// leave runs the script of that name: keys and their lines; ticket, channel and token; and rank, ticket
// and milliseconds of the next.
func (f *fakeNode) leave(args []any) driver.Reply {
	keys, argv := keysAndRest(args)
	if argv[2] != "" { // it only releases
		if held, ok := f.get(keys[0]); !ok || held.token != argv[2] {
			return integer(0)
		}
		delete(f.keys, keys[0])
		return integer(1)
	}
	keys, lines := keys[:len(keys)/2], keys[len(keys)/2:]
	for i, key := range keys {
		delete(f.lines[lines[i]], argv[0])
		if len(argv) > 3 {
			rank, _ := strconv.ParseInt(argv[3], 10, 64)
			f.ticket(lines[i], argv[4], rank, argv[5])
		}
		held, ok := f.get(key)
		if ok = ok && key != lines[i]; !ok {
			held.token = ""
		}
		f.tell(key, lines[i], argv[1], held.token)
		if !ok && f.listening(argv[1]+key) > int64(len(f.line(lines[i]))) {
			f.publish(argv[1] + key)
		}
	}
	return integer(1)
}

// share runs the script of that name: count, keys, milliseconds, mode, number; to join rank,
// ticket, how long that stays and whether somebody works under locks; tokens and, in two of the
// modes, the token that is converted.
func (f *fakeNode) share(args []any) driver.Reply {
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
	ticket, kept := "", int64(0)
	if mode == "join" {
		rank, _ := strconv.ParseInt(tokens[0].(string), 10, 64)
		l := &fakeLine{own: tokens[1].(string), rank: rank, under: tokens[3] == "1"}
		for _, other := range held {
			l.held = append(l.held, other.(string))
		}
		var others bool
		if ticket, kept, others, _ = f.before(line, l); ticket == "" && others {
			kept = -1
		}
		if tokens[2] != "0" {
			f.ticket(line, l.own, rank, tokens[2].(string))
		}
		tokens = tokens[4:]
	}
	var old any
	if mode == "turn" || mode == "back" {
		old, tokens = tokens[len(tokens)-1], tokens[:len(tokens)-1]
	}
	has, ok := f.get(key)
	turns := ok && any(has.token) == old
	reply := func(bits int64, number driver.Reply, holder *fakeKey) driver.Reply {
		who, left := driver.Reply{}, time.Duration(0)
		if holder != nil {
			who, left = bulk(holder.token), holder.until.Sub(f.now())
		}
		return array(integer(bits), number, who, integer(left.Milliseconds()), integer(kept), integer(f.now().UnixMicro()))
	}
	switch {
	case has.token == aList:
		return wrongType
	case mode == "back" && !ok:
		return reply(0, driver.Reply{}, nil)
	case ok && has.token != protocol.SharedValue && !turns, mode == "back" && !turns:
		return reply(0, driver.Reply{}, &has)
	}
	until := f.expiry(ttl)
	if turns && has.until.After(until) {
		until = has.until
	}
	shared := has.token == protocol.SharedValue
	var way *fakeKey
	if ticket != "" {
		way = &fakeKey{"ql:line " + ticket, f.now().Add(time.Duration(kept) * time.Millisecond)}
	}
	if !shared {
		delete(f.readers, set)
	}
	var bits int64
	for i, token := range tokens {
		own, there := f.readers[set][token.(string)]
		if way != nil && (!there || !own.After(f.now())) {
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
		return reply(0, driver.Reply{}, way)
	}
	f.keys[key] = fakeKey{protocol.SharedValue, f.lastReader(set)}
	counter := driver.Reply{}
	if counted {
		how := "GT"
		if mode == "join" {
			how = "NX"
		}
		f.counter([]any{"ZADD", counters, how, number, key})
		counter = f.counter([]any{"ZSCORE", counters, key})
		if f.floor(key) > f.fence(key) {
			counter = f.counter([]any{"ZSCORE", counters, ""})
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
		return integer(gone)
	}
	gone += f.listening(protocol.WakeChannel) << 32
	switch {
	case free && f.mute:
		gone = -1 - gone
	case free:
		f.publish(channel[0].(string) + key)
	}
	return integer(gone)
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
		return array(integer(0), bulk(held.token), integer(held.until.Sub(f.now()).Milliseconds()))
	}
	until := f.expiry(ms)
	if held.until.After(until) {
		until = held.until
	}
	delete(f.readers, set)
	f.keys[key] = fakeKey{writer, until}
	return array(integer(1))
}

// score is what ZSCORE says of a reader.
func (f *fakeNode) score(readers map[string]time.Time, token string) driver.Reply {
	until, there := readers[token]
	if !there {
		return driver.Reply{}
	}
	return bulk(strconv.FormatFloat(float64(until.UnixMilli()), 'g', 17, 64))
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
