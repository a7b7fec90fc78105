package protocol

import (
	"fmt"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// InLine is the exclusive lock of those who take turns: who waits stands in a line that the nodes
// keep beside the key. The line is advice: only the key gives votes.
var InLine = func() *Kind {
	k := *Exclusive
	k.Stands = true
	k.Acquire = &Op{Name: "acquire", Tries: true, Sets: true, Votes: true, encode: encodeStand, decode: decodeStand, fence: decodeFence, holder: holderAtLine, unscripted: errScriptlessLine}
	return &k
}()

// A Stand is where one who waits for a key stands in its line. Nil: behind all, for this one try.
type Stand struct {
	Name  string // whose it is
	Since int64  // his place: when his wait began, by the nodes' clocks, in microseconds
	Again bool   // he may stand there already
}

// StandTTL is how long somebody keeps his place who does not renew it.
const StandTTL = 1500 * time.Millisecond

// encodeStand runs the script that takes the key or stands in line for it.
func encodeStand(a *Ask, _ *Memory) []driver.Command {
	name, place, stays, again := "", "0", any("0"), "0"
	if s := a.Stand; s != nil {
		name, place, stays = s.Name, strconv.FormatInt(s.Since, 10), standTTL
		if s.Again {
			again = "1"
		}
	}
	args := lineKeys(scripts.Stand.Call(make([]any, 0, 13), 3), a.Key)
	return []driver.Command{{Args: append(args, a.Token, a.TTL, name, place, stays, again, WakeChannel), FirstKey: 3, Keys: 3}}
}

var standTTL = Milliseconds(StandTTL)

// lineKeys appends the key and those of its line.
func lineKeys(args []any, key any) []any {
	line, live := Beside(RoleLine, key.(string)), Beside(RoleLive, key.(string))
	return append(args, key, line, live)
}

// decodeStand reads whether the token has the key.
func decodeStand(a *Ask, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.Integer && (reply.Int == 1 || reply.Int == 2):
		return Granted, nil
	case isLine(reply):
		return Taken, nil
	default:
		return Failed, forbidden(a, reply, acl.Turns)
	}
}

// A refusal is who has the key, for how long, the time, and whether nobody is before.
func isLine(reply driver.Reply) bool {
	return reply.Kind == driver.Array && len(reply.Elems) == 4 && reply.Elems[0].Kind == driver.String &&
		reply.Elems[1].Kind == driver.Integer && reply.Elems[2].Kind == driver.Integer && reply.Elems[3].Kind == driver.Integer
}

// holderAtLine reads who has the key, or is first in line for it.
func holderAtLine(p *Part) (token string, left time.Duration, ok bool) {
	if !isLine(p.Reply[0]) {
		return "", 0, false
	}
	token, ok = p.other(p.Reply[0].Elems[0])
	return token, timeLeft(p.Reply[0].Elems[1]), ok
}

// First reports whether nobody stands in line before, at a node that has refused.
func (p *Part) First() bool {
	return p.Op.Tells() && len(p.Reply) > 0 && isLine(p.Reply[0]) && p.Reply[0].Elems[3].Int == 1
}

// Crowded reports whether others stand in line behind, at a node that has granted the key.
func (p *Part) Crowded() bool {
	return p.Op.encode != nil && len(p.Reply) > 0 && p.Reply[0].Kind == driver.Integer && p.Reply[0].Int == 2
}

// Clock is the time by the clock of a node that has refused and told it, in microseconds.
func (p *Part) Clock() (micros int64, ok bool) {
	if _, micros, ok = p.InTheWay(); ok || len(p.Reply) == 0 {
		return micros, ok
	}
	switch reply := p.Reply[0]; {
	case isLine(reply):
		return reply.Elems[2].Int, true
	case isRefusal(reply):
		return reply.Elems[3].Int, true
	}
	return 0, false
}

// Leave takes a name out of a line. Any answer will do: a name that stays there is gone after
// [StandTTL]; "" is no name. Who is first is told then. It goes behind the tries that came before, which may have left it there.
var Leave = &Op{Name: "leave", Tries: true, decode: anyReply}

// LeaveLine is the command for that. Next is where the name goes on to stand; nil: nowhere.
func LeaveLine(key, name string, next *Stand) []driver.Command {
	args := append(lineKeys(scripts.Leave.Call(nil, 3), key), name, WakeChannel)
	if next != nil {
		args = append(args, strconv.FormatInt(next.Since, 10), standTTL)
	}
	return []driver.Command{{Args: args, FirstKey: 3, Keys: 3}}
}

var errScriptlessLine = fault.With(fmt.Errorf("%w: it runs no scripts, without which nobody takes turns", fault.ErrNode), "allow +eval +evalsha")
