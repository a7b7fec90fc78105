package protocol

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// An Edge says that somebody waits under the lock on a key: whoever waits for that key waits for him. It
// stands beside the key, as advice.
type Edge struct {
	Wait   string // the wait's name, which no other has
	Since  int64  // when the wait began, by the nodes' clocks, in microseconds
	Shares bool   // he has the key as a reader
	Reads  bool   // he waits to read
	Keys   []string
	Owner  string   // of the lock
	Echo   []string // the nonces that he had read before he wrote this
}

// Blocks reports whether the edge's holder keeps out who waits for its key: readers keep out no readers.
func (e *Edge) Blocks(reads bool) bool { return !e.Shares || !reads }

// Younger reports whether the edge's wait began later than the other one. Of any two one did.
func (e *Edge) Younger(other *Edge) bool {
	return cmp.Or(cmp.Compare(e.Since, other.Since), strings.Compare(e.Wait, other.Wait)) > 0
}

// text is the edge as it stands at a node.
func (e *Edge) text() string {
	v := url.Values{"since": {strconv.FormatInt(e.Since, 10)}, "key": e.Keys, "echo": e.Echo}
	if e.Shares {
		v.Set("shares", "1")
	}
	if e.Reads {
		v.Set("reads", "1")
	}
	if e.Owner != "" {
		v.Set("owner", e.Owner)
	}
	return v.Encode()
}

// readEdge reads what a node has. Others may have written it.
func readEdge(wait, text string) (e Edge, ok bool) {
	v, err := url.ParseQuery(text)
	since, wrong := strconv.ParseInt(v.Get("since"), 10, 64)
	if err != nil || wrong != nil || len(v["key"]) == 0 || len(v["key"]) > MaxKeys {
		return Edge{}, false
	}
	if owner := v.Get("owner"); owner == "" || IsName(owner) {
		e.Owner = owner
	}
	e.Wait, e.Since, e.Shares, e.Reads = wait, since, v.Has("shares"), v.Has("reads")
	e.Keys, e.Echo = v["key"], v["echo"]
	return e, true
}

// The names of fields: what they are, and behind that the wait's name.
const (
	edgeField  = "wait:"
	nonceField = "nonce:"
)

// Waits keeps and reads edges. Nobody's vote is asked for.
var Waits = &Op{Name: "waits", decode: decodeWaits, unscripted: errScriptlessWaits}

// ReadWaits is the command that reads what stands beside a key.
func ReadWaits(key string) []driver.Command { return waitsCommand(key) }

// PutEdge is the command that puts an edge beside a key, for some time, and reads what stands there.
func PutEdge(key string, e *Edge, life time.Duration) []driver.Command {
	return waitsCommand(key, edgeField+e.Wait, e.text(), Milliseconds(life))
}

// DropEdge is the command that takes an edge away.
func DropEdge(key, wait string) []driver.Command { return waitsCommand(key, edgeField+wait, "", "0") }

// PutNonce is the command that asks those who wait under the lock on a key for a sign of life: they
// echo the nonce. A wait has one nonce at a time, so that those of several do not displace each other.
func PutNonce(key, wait, nonce string, life time.Duration) []driver.Command {
	return waitsCommand(key, nonceField+wait, nonce, Milliseconds(life))
}

// DropNonce is the command that takes a wait's nonce away.
func DropNonce(key, wait string) []driver.Command { return waitsCommand(key, nonceField+wait, "", "0") }

func waitsCommand(key string, args ...any) []driver.Command {
	return []driver.Command{{Args: append(append(scripts.Waits.Call(make([]any, 0, 7), 1), Beside(RoleWaits, key)), args...), FirstKey: 3, Keys: 1}}
}

// Sight is what one node has beside a key.
type Sight struct {
	Micros int64 // the time by its clock
	Edges  []Edge
	Nonces []string
}

// SeenWaits reads what the node has said, if it has.
func (p *Part) SeenWaits() (s Sight) {
	if len(p.Reply) == 0 || !isWaits(p.Reply[0]) {
		return s
	}
	elems := p.Reply[0].Elems
	s.Micros = elems[0].Int
	for pair := range slices.Chunk(elems[1:], 2) {
		if wait, is := strings.CutPrefix(pair[0].Str, edgeField); is {
			if e, ok := readEdge(wait, pair[1].Str); ok {
				s.Edges = append(s.Edges, e)
			}
		}
		if strings.HasPrefix(pair[0].Str, nonceField) {
			s.Nonces = append(s.Nonces, pair[1].Str)
		}
	}
	return s
}

// StoredEdges reads the edges of the hash itself, fields and values by turns, at a node whose clock tells
// now. Those whose time is over are left out.
func StoredEdges(pairs []string, now time.Time) (edges []Edge) {
	for pair := range slices.Chunk(pairs, 2) {
		wait, is := strings.CutPrefix(pair[0], edgeField)
		if !is || len(pair) < 2 {
			continue
		}
		till, text, _ := strings.Cut(pair[1], " ")
		ends, err := strconv.ParseInt(till, 10, 64)
		if e, ok := readEdge(wait, text); ok && err == nil && ends > now.UnixMilli() {
			edges = append(edges, e)
		}
	}
	return edges
}

func isWaits(reply driver.Reply) bool {
	return reply.Kind == driver.Array && len(reply.Elems)%2 == 1 && reply.Elems[0].Kind == driver.Integer
}

func decodeWaits(a *Ask, replies []driver.Reply) (Answer, error) {
	if isWaits(replies[0]) {
		return Granted, nil
	}
	return Failed, forbidden(a, replies[0], acl.Deadlocks)
}

var errScriptlessWaits = fault.With(fmt.Errorf("%w: it runs no scripts, without which no deadlocks are found", fault.ErrNode), "allow +eval +evalsha")
