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

// An Edge is a wait under the lock on a key: whoever waits for the key waits for the edge's wait. Edges are
// kept beside the key, as advice.
type Edge struct {
	Wait   string // a unique name
	Since  int64  // when the wait began, by the nodes' clocks, in microseconds
	Shares bool   // the lock is a reader's
	Reads  bool   // the wait is a reader's
	Keys   []string
	Owner  string   // of the lock
	Echo   []string // the nonces that its Locker had read before it wrote the edge
}

// Blocks reports whether the edge's holder keeps out a waiter for its key: readers keep out no readers.
func (e *Edge) Blocks(reads bool) bool { return !e.Shares || !reads }

// Compare orders edges by when their waits began. Of any two, one began later.
func (e Edge) Compare(other Edge) int {
	return cmp.Or(cmp.Compare(e.Since, other.Since), strings.Compare(e.Wait, other.Wait))
}

// text is the edge in a node's form, but for Echo.
func (e *Edge) text() string {
	v := url.Values{"wait": {e.Wait}, "since": {strconv.FormatInt(e.Since, 10)}, "key": e.Keys}
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

// MaxEdges bounds the edges beside a key for a Locker, in bytes.
const MaxEdges = 1 << 18

// edgesText is the form of all edges of a Locker beside a key: the echoed nonces, and a line for each edge.
// If there are too many, the last are left out.
func edgesText(edges []Edge, echo []string) string {
	var b strings.Builder
	b.WriteString(url.Values{"echo": echo}.Encode())
	for i := range edges {
		text := edges[i].text()
		if b.Len()+len(text) >= MaxEdges {
			break
		}
		b.WriteString("\n" + text)
	}
	return b.String()
}

// readEdges reads a node's edges. Others may have written them.
func readEdges(text string) (edges []Edge) {
	echoes, lines, _ := strings.Cut(text, "\n")
	echo, err := url.ParseQuery(echoes)
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(lines, "\n") {
		v, err := url.ParseQuery(line)
		since, wrong := strconv.ParseInt(v.Get("since"), 10, 64)
		if err != nil || wrong != nil || len(v["key"]) == 0 || len(v["key"]) > MaxKeys {
			continue
		}
		e := Edge{Wait: v.Get("wait"), Since: since, Shares: v.Has("shares"), Reads: v.Has("reads"), Keys: v["key"], Echo: echo["echo"]}
		if owner := v.Get("owner"); IsName(owner) {
			e.Owner = owner
		}
		edges = append(edges, e)
	}
	return edges
}

// The names of fields, and of lines with nonces: the type, and behind it the owner's name.
const (
	edgeField  = "wait:"
	nonceField = "nonce:"
)

// Waits keeps and reads edges. Nobody's vote is asked for.
var Waits = &Op{Verb: &Verb{Name: "waits"}, needs: needsWaits, decode: decodeWaits, unscripted: errScriptlessWaits}

// ReadWaits is the command that reads the edges beside a key.
func ReadWaits(key string) []driver.Command { return waitsCommand(key) }

// PutEdges is the command that puts the edges of a Locker beside a key, for some time, and reads the nonces
// there. The caller's edges are the oldest first.
func PutEdges(key, locker string, edges []Edge, echo []string, life time.Duration) []driver.Command {
	return waitsCommand(key, edgeField+locker, edgesText(edges, echo), Milliseconds(life))
}

// DropEdges is the command that takes the edges of a Locker away.
func DropEdges(key, locker string) []driver.Command {
	return waitsCommand(key, edgeField+locker, "", "0")
}

// PutNonce is the command that asks the waits under the lock on a key for a sign of life: they echo the
// nonce. Each wait has its own nonce, or the nonces of several would displace each other.
func PutNonce(key, wait, nonce string, life time.Duration) []driver.Command {
	return waitsCommand(key, nonceField+wait, nonce, Milliseconds(life))
}

// DropNonce is the command that takes a wait's nonce away.
func DropNonce(key, wait string) []driver.Command { return waitsCommand(key, nonceField+wait, "", "0") }

func waitsCommand(key string, args ...any) []driver.Command {
	return []driver.Command{{Args: append(append(scripts.Waits.Call(make([]any, 0, 7), 1), Beside(RoleWaits, key)), args...), FirstKey: 3, Keys: 1}}
}

// Listening asks how many listen for the release of keys.
var Listening = NewOp("waits", false, func(replies []driver.Reply) error {
	if replies[0].Kind != driver.Array {
		return Unexpected(replies[0])
	}
	return nil
})

// AskListening is the command that counts the listeners of keys.
func AskListening(keys []string) []driver.Command {
	args := append(make([]any, 0, 2+len(keys)), "PUBSUB", "NUMSUB")
	for _, key := range keys {
		args = append(args, WakeChannel+key)
	}
	return []driver.Command{{Args: args}}
}

// Listeners reads for which of n keys somebody listens; nil: not told.
func (p *Part) Listeners(keys int) []bool {
	if len(p.Reply) == 0 || len(p.Reply[0].Elems) != 2*keys {
		return nil
	}
	some := make([]bool, keys)
	for i := range some {
		some[i] = p.Reply[0].Elems[2*i+1].Int > 0
	}
	return some
}

// Sight is a node's view of the waits beside a key.
type Sight struct {
	Micros int64 // the time by its clock
	Edges  []Edge
	Nonces []string
}

// SeenWaits reads the node's replies, if there are any.
func (p *Part) SeenWaits() (s Sight) {
	if len(p.Reply) == 0 || !isWaits(p.Reply[0]) {
		return s
	}
	elems := p.Reply[0].Elems
	s.Micros, s.Nonces = elems[0].Int, strings.Fields(elems[1].Str)
	for pair := range slices.Chunk(elems[2:], 2) {
		s.Edges = append(s.Edges, readEdges(pair[1].Str)...)
	}
	return s
}

// StoredEdges reads the edges of the hash itself, fields and values by turns, at a node whose clock
// tells now. Those whose time is over are left out.
func StoredEdges(pairs []string, now time.Time) (edges []Edge) {
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) < 2 || !strings.HasPrefix(pair[0], edgeField) {
			continue
		}
		till, text, _ := strings.Cut(pair[1], " ")
		if ends, err := strconv.ParseInt(till, 10, 64); err == nil && ends > now.UnixMilli() {
			edges = append(edges, readEdges(text)...)
		}
	}
	return edges
}

func isWaits(reply driver.Reply) bool {
	return reply.Kind == driver.Array && len(reply.Elems) > 0 && len(reply.Elems)%2 == 0 && reply.Elems[0].Kind == driver.Integer
}

func decodeWaits(a *Ask, replies []driver.Reply) (Answer, error) {
	if isWaits(replies[0]) {
		return Granted, nil
	}
	return Failed, forbidden(a, replies[0], acl.Deadlocks)
}

var errScriptlessWaits = fmt.Errorf("%w: it runs no scripts, without which no deadlocks are found", fault.ErrNode)
