package fakenode

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A Ticket is one in a line: see internal/scripts/line.lua.
type Ticket struct {
	Rank  int64 // microseconds
	Until time.Time
}

// An asker is one who asks the lines of keys.
type asker struct {
	own   string
	rank  int64
	under bool
	held  []string
	most  int // wants up to so many; 0: it does not matter
}

// Line returns the tickets of a line that count, in order. For within [Node.Change].
func (f *Node) Line(name string) []string {
	line := f.Lines[name]
	maps.DeleteFunc(line, func(_ string, t Ticket) bool { return !f.Now().Before(t.Until) })
	return slices.SortedFunc(maps.Keys(line), func(a, b string) int { return cmp.Or(cmp.Compare(line[a].Rank, line[b].Rank), cmp.Compare(a, b)) })
}

// before runs the function of that name.
func (f *Node) before(name string, l *asker) (ticket string, left int64, some, passed bool) {
	for _, ticket := range f.Line(name) {
		if ticket == l.own {
			continue
		}
		t := f.Lines[name][ticket]
		number, _ := strconv.Atoi(ticket[1:strings.IndexByte(ticket, ':')])
		waits := func(held string) bool { return f.Lines[held][ticket] != Ticket{} }
		switch {
		case l.rank > 0 && (t.Rank > l.rank || t.Rank == l.rank && ticket > l.own):
			return "", 0, true, passed
		case ticket[0] == 's' && (slices.ContainsFunc(l.held, waits) || l.most > 0 && number > l.most):
			return "", 0, true, false
		}
		some = true
		since, soon := int64(0), int64(1<<40)
		switch {
		case ticket[0] == 'r' && l.own[0] == 'r':
			continue
		case ticket[0] == 's':
			since, soon = f.rests(t.Rank)
		case ticket[0] == 'x' && l.own[0] == 'r' && l.under:
			since, soon = f.rests(t.Rank + int64(number)*1e6)
		}
		if since == 0 || l.rank == 0 || l.rank >= since {
			return ticket, min(soon, t.Until.Sub(f.Now()).Milliseconds()), true, false
		}
		passed = true
	}
	return "", 0, some, passed
}

// rests runs the function of that name.
func (f *Node) rests(rank int64) (since, soon int64) {
	micros, period := f.Now().UnixMicro(), int64(48000)
	for micros-rank >= 16*period {
		period *= 2
	}
	since = micros - micros%period + period*2/3
	if micros >= since && micros-rank >= 8*period {
		return since, (since + period - micros + 999) / 1000
	}
	return 0, (max(since-micros, 8*period-micros+rank) + 999) / 1000
}

// AddTicket lets a ticket stand in a line, at a rank, for so long. For within [Node.Change].
func (f *Node) AddTicket(line, own string, rank int64, stays time.Duration) {
	if f.Lines == nil {
		f.Lines = map[string]map[string]Ticket{}
	}
	if f.Lines[line] == nil {
		f.Lines[line] = map[string]Ticket{}
	}
	f.Lines[line][own] = Ticket{rank, f.Now().Add(stays)}
}

// put runs the function of that name.
func (f *Node) put(line, own string, rank int64, stays time.Duration) (fresh bool) {
	fresh = f.Lines[line][own].Rank != rank
	f.AddTicket(line, own, rank, stays)
	return fresh
}

// displaces runs the function of that name.
func (f *Node) displaces(key, line, own, channel string) {
	if all := f.Line(line); len(all) > 1 && all[0] == own {
		f.publish(channel+key+" "+nameOf(all[1]), strconv.FormatInt(f.Lines[line][all[1]].Rank, 10)+" behind")
	}
}

// tell runs the function of that name.
func (f *Node) tell(key, line, channel, holder string) {
	for i, ticket := range f.Line(line) {
		if i > 0 && ticket[0] != 'r' {
			break
		}
		says := strconv.FormatInt(f.Lines[line][ticket].Rank, 10)
		if holder == "" || ticket[0] == 'r' && holder == protocol.SharedValue {
			says += " free"
		}
		f.publish(channel+key+" "+nameOf(ticket), says)
		if ticket[0] != 'r' {
			break
		}
	}
}

// nameOf is the name of a ticket's Locker.
func nameOf(ticket string) string {
	name, _, _ := strings.Cut(ticket[strings.IndexByte(ticket, ':')+1:], ".")
	return name
}
