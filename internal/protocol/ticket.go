package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A Ticket is left by a waiter in the lines that the nodes keep beside its keys: see line.lua. A ticket is
// advice, and only makes nodes refuse: the keys alone give votes.
type Ticket struct {
	Class  Class
	Number int    // the waiter's priority in seconds, or the number of wanted keys or permits
	Name   string // its Locker's name; for a set, with the number of the wait behind a dot
	Rank   int64  // when the wait began, by the nodes' clocks, in microseconds, less the priority; 0: behind all
}

// A Class is what a ticket's waiter wants.
type Class string

// The classes.
const (
	WantsOne     Class = "x" // one key or permit, alone
	WantsSeveral Class = "s" // several keys or permits
	WantsToRead  Class = "r" // one key, beside other readers
)

// String is the nodes' name of the ticket.
func (t *Ticket) String() string { return string(t.Class) + strconv.Itoa(t.Number) + ":" + t.Name }

// A Line is a try's message to the lines of its keys.
type Line struct {
	Ticket
	Stays bool  // the ticket is left there
	Quiet bool  // for [acquire.QuietLife]
	Under bool  // the caller works under locks
	Held  []any // the lines of the keys of the caller's context: a waiter there waits for the caller
	Most  int   // of permits: a waiter that wants more waits for the caller's
	Pool  any   // the line for permits; nil: the lines of keys
}

// Lane is the queue at each node for a Locker's tries that leave a ticket for the key.
func (l *Line) Lane(key string) any { return key + "\x00" + l.Name }

// args are the arguments for scripts: the rank, the ticket, and its life.
func (l *Line) args() []any {
	stays := any("0")
	switch {
	case l.Stays && l.Quiet:
		stays = quietTTL
	case l.Stays:
		stays = ticketTTL
	}
	return []any{strconv.FormatInt(l.Rank, 10), l.String(), stays}
}

var ticketTTL, quietTTL = Milliseconds(acquire.TicketLife), Milliseconds(acquire.QuietLife)

// Fair is the exclusive lock whose waiters are served in the order of their tickets.
var Fair = func() *Kind {
	k := *Exclusive
	k.HeedsLine = true
	k.Acquire = &Op{Verb: Acquiring, needs: needsLine, carries: true, encode: encodeTake(true), decode: decodeTake, fence: decodeFenceAll, refusal: refusalAtTake, unscripted: errScriptlessLine}
	return &k
}()

// InLine is the exclusive lock of a waiter with a ticket, where scripts run; at other nodes the plain one.
var InLine = func() *Kind {
	k := *Fair
	acquire := *Fair.Acquire
	acquire.needs, acquire.unscripted, acquire.lineless = needsPlain, nil, true
	k.Acquire = &acquire
	return &k
}()

// LineOf is where the nodes keep the tickets for a key, by their name of it.
func LineOf(key string) any { return Beside(RoleLine, key) }

// LeastRank is above the scores in a line that are ends of tickets' lives, and below the ranks.
const LeastRank = "100000000000000"

// Tickets counts the live ones, by the node's clock, of tickets with their ends. Where the node does not
// tell its time all count.
func Tickets(times []string, now time.Time) (live int) {
	for i := 0; i+1 < len(times); i += 2 {
		if until, err := strconv.ParseFloat(times[i+1], 64); err == nil && until > float64(now.UnixMilli()) {
			live++
		}
	}
	return live
}

// lines are those of the ask's keys.
func (a *Ask) lines() []any {
	if a.Line != nil && a.Line.Pool != nil {
		return []any{a.Line.Pool}
	}
	lines := make([]any, 0, 1)
	for _, key := range a.keys() {
		lines = append(lines, LineOf(key.(string)))
	}
	return lines
}

// encodeTake runs the script that takes all keys or none. Heeds: the try heeds the tickets in line.
func encodeTake(heeds bool) func(*Ask, *Memory) []driver.Command {
	return func(a *Ask, _ *Memory) []driver.Command {
		all, count := slices.Clone(a.keys()), strconv.Itoa(len(a.keys()))
		if a.Fence.Number != 0 {
			all = append(all, a.Sets()...)
		}
		var line []any
		if heeds {
			all = append(append(all, a.lines()...), a.Line.Held...)
			line = append(a.Line.args(), bit(a.Line.Under), WakeChannel)
		}
		args := append(scripts.Take.Call(make([]any, 0, 12+len(all)), len(all)), all...)
		args = append(args, a.Token, a.TTL, count, strconv.FormatInt(a.Fence.Number, 10))
		return []driver.Command{{Args: append(args, line...), FirstKey: 3, Keys: len(all)}}
	}
}

// bit is how a script takes a bool.
func bit(set bool) any { return strconv.Itoa(boolean(set)) }

func boolean(set bool) int {
	if set {
		return 1
	}
	return 0
}

// decodeTake reads whether the node has given the token all keys.
func decodeTake(a *Ask, replies []driver.Reply) (Answer, error) {
	reply := replies[0]
	way, name := inTheWay(a, reply)
	switch {
	case reply.Kind == driver.Integer && reply.Int != 0 && -2 <= reply.Int && reply.Int <= 2:
		return Granted, nil
	case len(way) == 1:
		return Failed, fmt.Errorf("key %q: %w", name, Unexpected(driver.Reply{Kind: driver.Failure, Str: "WRONGTYPE it holds no string"}))
	case len(way) == 5:
		return Taken, nil
	case a.Many == nil:
		return Failed, forbidden(a, reply, acl.Turns)
	}
	return Failed, forbidden(a, reply, acl.Sets)
}

// inTheWay reads a refusal, and the name of the key in the way; nil: no refusal.
func inTheWay(a *Ask, reply driver.Reply) (way []driver.Reply, name string) {
	if reply.Kind != driver.Array || len(reply.Elems) != 1 && len(reply.Elems) != 5 {
		return nil, ""
	}
	place := reply.Elems[0]
	if place.Kind != driver.Integer || place.Int < 1 || place.Int > int64(len(a.keys())) {
		return nil, ""
	}
	if a.Many != nil {
		name = a.Many.Names[place.Int-1]
	}
	return reply.Elems, name
}

// decodeFenceAll reads whether all counters took the number.
func decodeFenceAll(_ *Ask, replies []driver.Reply) (Answer, error) {
	switch {
	case len(replies) > 1: // of a node without scripts
		return Failed, fenceRefused(replies[1])
	case replies[0].Int <= 0:
		return Outbid, nil
	}
	return Granted, nil
}

// refusalAtTake reads who has the key in the way, a token or a ticket, and the line.
func refusalAtTake(p *Part) (r Refusal) {
	way, _ := inTheWay(p.Ask, p.Reply[0])
	if len(way) != 5 {
		return r
	}
	r = p.named(way[1])
	r.Left, r.Clock = TimeLeft(way[2]), max(0, way[3].Int)
	r.InLine, r.First, r.Stands = true, way[4].Int&1 == 1, way[4].Int&2 != 0
	return r
}

// InTheWay is the name of the key in the way at a node that has refused several, also to extend.
func (p *Part) InTheWay() (name string, ok bool) {
	if p.Many == nil || len(p.Reply) == 0 {
		return "", false
	}
	way, name := inTheWay(p.Ask, p.Reply[0])
	return name, len(way) == 5
}

// Stands reports whether a node has the ticket behind a try that was to leave it; ok is false if the node does
// not say.
func (p *Part) Stands() (stands, ok bool) {
	if p.Reply == nil || p.Refused() {
		return false, false
	}
	if r := p.Refusal(); r.InLine {
		return r.Stands, true
	}
	return p.Line.Pool != nil || p.Line.Class != WantsOne, true // take.lua takes the ticket of whom it grants the key
}

// Crowded reports whether other tickets are in line, at a granting node.
func (p *Part) Crowded() bool {
	return p.Line != nil && len(p.Reply) > 0 && p.Reply[0].Kind == driver.Integer && p.Reply[0].Int != 0 && p.Reply[0].Int%2 == 0
}

// Leave takes a ticket out of the lines of keys or of permits. Any answer will do: a ticket that stays
// counts no longer than [acquire.TicketLife] once the key is free. Leave goes behind earlier tries, which may
// have left the ticket.
var Leave = &Op{Verb: Leaving, decode: anyReply}

// LeaveLine are the commands that take the ask's ticket out of its lines. The node then tells the first
// ticket. Next is the ticket of the Locker's next waiter, which is put there; nil: none.
func (a *Ask) LeaveLine(next *Ticket) []driver.Command {
	return []driver.Command{a.leave(a.Line.String(), "", next)}
}

// CallNext makes a release tell the first in line that the key is free, in place of all listeners: see
// leave.lua. A node that has the token puts the ticket back into the line, if there is one: of a try that has
// failed. Whoever gave back votes would stand nowhere, and later ones could pass it again and again.
func (a *Ask) CallNext(back *Ticket) {
	a.Op, a.Loud, a.Back = releaseInLine, false, back
	a.Cmds = []driver.Command{a.leave("", a.Token, back)}
}

var releaseInLine = &Op{Verb: Releasing, decode: decodeRelease, unscripted: errScriptlessLine}

// callsNextApart reports whether the node takes the release of [Ask.CallNext] as two commands.
func (b *Batch) callsNextApart(p *Part) bool { return b.Cluster && p.Op == releaseInLine }

// apart are the two commands.
func (a *Ask) apart() []driver.Command {
	return []driver.Command{scripts.Leave.One(nil, a.Key, "", WakeChannel, a.Token), a.leave("", "", a.Back)}
}

func (a *Ask) leave(ticket string, token any, next *Ticket) driver.Command {
	keys, lines := a.keys(), a.lines()
	if a.Line != nil && a.Line.Pool != nil {
		keys = lines
	}
	all := slices.Concat(keys, lines)
	args := append(scripts.Leave.Call(make([]any, 0, 9+len(all)), len(all)), all...)
	args = append(args, ticket, WakeChannel, token)
	if next != nil {
		args = append(args, strconv.FormatInt(next.Rank, 10), next.String(), ticketTTL)
	}
	return driver.Command{Args: args, FirstKey: 3, Keys: len(all)}
}

// near are the lines of the caller's keys that a Redis Cluster keeps on the key's server. Tickets in the
// other lines rest now and then.
func (l *Line) near(key any) (held []any) {
	for _, line := range l.Held {
		if hashTag(line.(string)) == hashTag(key.(string)) {
			held = append(held, line)
		}
	}
	return held
}

// onCluster is the command of a try that heeds the lines there.
func (p *Part) onCluster() []driver.Command {
	near := *p.Ask
	line := *p.Line
	near.Line, line.Held = &line, line.near(p.Key)
	return p.Op.encode(&near, new(Memory))
}

var errScriptlessLine = fmt.Errorf("%w: it runs no scripts, without which nobody takes turns", fault.ErrNode)
