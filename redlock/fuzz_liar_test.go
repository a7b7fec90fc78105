package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// A liar is a fake node that answers as the bytes of a fuzzer say, and otherwise as it
// should.
type liar struct {
	*proofNode
	index   int
	witness *witness

	liarMu sync.Mutex
	lies   map[string][]lie // by command, in the order in which they are told
	calls  int
	closed bool // nothing may come any more
	late   int  // calls that came all the same
	honest bool // from now on
	fair   bool // no lie says that somebody got what he did not get
}

// A lie is three bytes of the fuzzer: whose and about what, of what kind, and the detail.
type lie struct{ kind, detail byte }

// The flags of a kind.
const (
	lieRuns    = 16 // the command is run before
	lieForever = 32 // every time from now on
)

// told are the commands about which nodes lie. A batch is a call of the driver as a whole,
// an ear what a subscription hears.
var told = []string{
	"batch", "SET", "GET", "EVALSHA", "EVAL", "PROBE", "INFO", "TIME", "PTTL", "ZADD", "PEXPIRE", "ZSCORE", "SET IFEQ", "DELIFEQ", "DELEX",
	"PUBLISH", "PUBSUB", "WAIT", "WAITAOF", "ear", "HMGET", "ZRANGE", "ZREMRANGEBYSCORE",
}

// mostLiars is how many nodes the first byte of a lie tells apart.
const mostLiars = 5

// liars returns n nodes that tell these lies.
func liars(n int, kind fakenode.Kind, scriptless bool, w *witness, data []byte) []*liar {
	nodes := make([]*liar, n)
	for i, node := range proofNodes(n) {
		node.Kind, node.Scriptless = kind, scriptless
		nodes[i] = &liar{proofNode: node, index: i, witness: w, lies: map[string][]lie{}}
		node.Answer = nodes[i].answers
	}
	for ; len(data) >= 3; data = data[3:] {
		node, about := nodes[int(data[0])%mostLiars%n], told[int(data[0])/mostLiars%len(told)]
		node.lies[about] = append(node.lies[about], lie{data[1], data[2]})
	}
	return nodes
}

// tells makes these the node's next lies about something, and its only ones.
func (n *liar) tells(about string, lies ...lie) {
	n.liarMu.Lock()
	defer n.liarMu.Unlock()
	n.lies[about] = lies
}

// next returns the next lie about something.
func (n *liar) next(about string) (l lie, ok bool) {
	n.liarMu.Lock()
	defer n.liarMu.Unlock()
	lies := n.lies[about]
	if len(lies) == 0 || n.honest {
		return lie{}, false
	}
	if lies[0].kind&lieForever == 0 {
		n.lies[about] = lies[1:]
	}
	return lies[0], true
}

// mostCalls is far more than any of these tests needs: who asks more often is in a loop.
const mostCalls = 20000

func (n *liar) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	n.liarMu.Lock()
	n.calls++
	spins := n.calls > mostCalls
	if n.closed {
		n.late++
	}
	n.liarMu.Unlock()
	if spins {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if !fakenode.Sleep(ctx, 100*time.Microsecond) {
		return nil, ctx.Err()
	}
	replies, err := n.batch(ctx, cmds)
	n.witness.see(n.index, cmds, replies)
	return replies, err
}

// batch answers a call as a whole.
func (n *liar) batch(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	l, ok := n.next("batch")
	if !ok {
		return n.truth(ctx, cmds)
	}
	var replies []driver.Reply
	if l.kind&lieRuns != 0 {
		replies, _ = n.truth(ctx, cmds)
	}
	switch l.kind % 16 {
	case 0:
		return nil, fakenode.ErrCut
	case 1:
		return nil, driver.NotSent(fakenode.ErrCut)
	case 2:
		return replies[:len(replies)/2], fakenode.ErrCut
	case 3:
		return replies, fakenode.ErrCut
	case 4:
		return nil, nil
	case 5:
		more := make([]driver.Reply, 1+int(l.detail))
		for i := range more {
			if n.fair { // a Nil is what grants a SET
				more[i].Kind = driver.Failure
			}
		}
		return append(replies, more...), nil
	case 6:
		return replies[:len(replies)*int(l.detail)/256], nil
	case 7:
		panic("the driver of a fuzzed node")
	case 8:
		return replies, context.Canceled
	case 9:
		return nil, context.DeadlineExceeded
	case 10: // the server runs it when nobody waits any more
		<-ctx.Done()
		time.AfterFunc(time.Duration(l.detail)*10*time.Millisecond, func() {
			n.Change(func(f *fakeNode) { f.Run(cmds) })
		})
		return nil, ctx.Err()
	default:
		if !fakenode.Sleep(ctx, time.Duration(l.detail)*4*time.Millisecond) {
			return replies, ctx.Err()
		}
		if replies == nil {
			return n.truth(ctx, cmds)
		}
		return replies, nil
	}
}

// truth runs the commands, about each of which there may be a lie.
func (n *liar) truth(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	replies, err := n.proofNode.Do(ctx, cmds)
	if at := slices.IndexFunc(cmds, fakenode.IsProof); err == nil && at >= 0 {
		if l, ok := n.next(cmds[at].Args[0].(string)); ok && !n.fair {
			replies[at] = l.about(cmds[at].Args, replies[at])
		}
	}
	return replies, err
}

// answers is asked before a command is run. The node's mutex is held.
func (n *liar) answers(args []any) *driver.Reply {
	l, ok := n.next(fakenode.CommandName(args))
	if !ok {
		return nil
	}
	var honest driver.Reply
	if l.kind&lieRuns != 0 {
		honest = n.RunOne(args)
	} else {
		honest = driver.Reply{Kind: driver.Failure, Str: "ERR not run"}
	}
	reply := l.about(args, honest)
	if n.fair && (grants(args, reply) && !grants(args, honest) || together(args) && (reply.Kind == driver.Integer && reply.Int&^honest.Int != 0)) {
		reply = driver.Reply{Kind: driver.Failure, Str: "ERR nothing was granted"}
	}
	return &reply
}

// edges are the numbers at the ends of what counts as what.
var edges = []int64{
	0, 1, -1, 2, 3, 4, -2, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 32, 1<<32 + 1, -1 << 32, 1<<32 - 1, 1 << 53,
	1<<53 - 1, 1<<53 - 2, math.MaxInt32, math.MinInt32, math.MaxInt64 / 1_000_000, 1 + math.MaxInt64/1_000_000, 1 << 62, 946684800000000, 1500,
}

// texts are strings that something may be read from.
var texts = []string{
	"", "OK", "0", "1", "-1", " 1", "1 ", "nan", "inf", "-inf", "1e300", "-1e300", "1e15", "0x1p52", "9007199254740990", "9007199254740991",
	"9223372036854775807", "-9223372036854775808", "18446744073709551616", "\x00", "\xff\xfe", "\r\n", "role:master\r\nmaster_replid:x\r\n",
	"role:slave\r\nmaster_host:h\r\nmaster_port:1\r\n", "role:master", "run_id:node-1\r\n", "master_replid:\r\nrole:master", ":", "redis_mode:cluster\r\n",
	"maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n", "x 9223372036854775807", "ql:00000000000000000000000000000000", "a list", strings.Repeat("\x00y", 1<<15),
}

// refusals are errors that servers give, and some that they do not.
var refusals = []string{
	"", " ", "ERR", "ERR unknown command 'EVALSHA'", "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "NOSCRIPT No matching script.", "NOSCRIPT",
	"READONLY You can't write against a read only replica.", "LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script",
	"OOM command not allowed when used memory > 'maxmemory'.", "WRONGTYPE Operation against a key holding the wrong kind of value",
	"NOAUTH Authentication required.", "NOPERM User x has no permissions", "MASTERDOWN Link with MASTER is down", "CROSSSLOT Keys in request don't hash to the same slot",
	"CLUSTERDOWN The cluster is down", "MISCONF", "WRONGPASS", "TRYAGAIN", "UNBLOCKED", "EXECABORT", "garbage", "\x00\xff", "ERR syntax error",
	"ERR appendonly is off", "ERR string type", strings.Repeat("E", 1<<16),
}

// about is what the lie says to a command to which the truth would be honest.
func (l lie) about(args []any, honest driver.Reply) driver.Reply {
	detail := int(l.detail)
	number, text := edges[detail%len(edges)], texts[detail%len(texts)]
	switch l.kind % 16 {
	case 0:
		return driver.Reply{}
	case 1:
		return driver.Reply{Kind: driver.Integer, Int: number}
	case 2:
		return driver.Reply{Kind: driver.String, Str: text}
	case 3:
		return driver.Reply{Kind: driver.Failure, Str: refusals[detail%len(refusals)]}
	case 4:
		return driver.Reply{Kind: driver.Kind(l.detail), Str: text, Int: number}
	case 5:
		return driver.Reply{Kind: driver.Array, Elems: make([]driver.Reply, detail%4)}
	case 6: // as TIME does
		return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{
			{Kind: driver.String, Str: text}, {Kind: driver.String, Str: texts[detail/len(texts)%len(texts)]},
		}}
	case 7: // as WAITAOF and PUBSUB do
		return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{
			{Kind: driver.Integer, Int: number}, {Kind: driver.Integer, Int: edges[detail/len(edges)%len(edges)]},
		}}
	case 8: // the same in another kind
		honest.Kind = driver.Kind(l.detail % 8)
		return honest
	case 9:
		honest.Int = number
		return honest
	case 10:
		return driver.Reply{Kind: driver.String, Str: args[detail%len(args)].(string)}
	case 11: // a clock of any time
		return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{
			{Kind: driver.String, Str: strconv.FormatInt(number, 10)}, {Kind: driver.String, Str: strconv.FormatInt(edges[detail/len(edges)%len(edges)], 10)},
		}}
	case 12:
		nested := driver.Reply{Kind: driver.Array}
		for range detail {
			nested = driver.Reply{Kind: driver.Array, Elems: []driver.Reply{nested, honest}}
		}
		return nested
	case 13:
		honest.Str += text
		return honest
	case 14:
		return driver.Reply{Kind: driver.Integer, Int: int64(l.detail) - 128}
	default:
		return honest
	}
}

// Subscribe hears honestly, and of things that nobody has published.
func (n *liar) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	l, ok := n.next("ear")
	if ok && l.kind%16 == 0 {
		return nil, fakenode.ErrCut
	}
	open, err := n.Node.Subscribe(ctx, hear)
	if err != nil || !ok {
		return open, err
	}
	notice := driver.Notice{Kind: driver.NoticeKind(l.detail), Channel: texts[int(l.detail)%len(texts)]}
	if l.kind%2 == 0 {
		notice.Channel = protocol.WakeChannel + "k"
	}
	if l.kind%4 < 2 {
		notice.Err = fakenode.ErrCut
	}
	open.(*fakenode.Subscription).Put(notice)
	return open, nil
}

// check fails the test if somebody has asked in a loop, or after the Locker was closed.
func (n *liar) check(t *testing.T) {
	t.Helper()
	n.liarMu.Lock()
	defer n.liarMu.Unlock()
	if n.calls > mostCalls {
		t.Errorf("%s was asked more than %d times", n.Name(), mostCalls)
	}
	if n.late > 0 {
		t.Errorf("%s was asked %d times after the Locker was closed", n.Name(), n.late)
	}
}

// tellTruth ends all lies.
func (n *liar) tellTruth() {
	n.liarMu.Lock()
	defer n.liarMu.Unlock()
	n.honest = true
}

// forbid notes that nothing may come any more.
func (n *liar) forbid() {
	n.liarMu.Lock()
	defer n.liarMu.Unlock()
	n.closed = true
}

// A witness stands at all nodes and notes which of their answers have the form of a grant.
// It has a reading of its own, from what the protocol's texts say and not from the code.
type witness struct {
	fences     bool
	guard      time.Duration
	nodes      int
	clockGuard bool
	wait       string // WAIT, WAITAOF or ""
	replicas   int64

	mu      sync.Mutex
	granted map[vow]time.Time // when the last such answer was given
	fenced  map[vow]bool      // and whether the node said that it is the greatest
}

// A vow is what one node has granted to a token: the key, or a fence.
type vow struct {
	node  int
	token string
	fence string
}

// see takes in what a node has answered to a batch.
func (w *witness) see(node int, cmds []driver.Command, replies []driver.Reply) {
	replies = replies[:min(len(replies), len(cmds))]
	counts := w.counts(cmds, replies)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.granted == nil {
		w.granted, w.fenced = map[vow]time.Time{}, map[vow]bool{}
	}
	half := false
	for i, reply := range replies {
		args := cmds[i].Args
		// Without scripts a key of one's own is prolonged by a second batch, and that one
		// says whether all of it counts.
		half = half || args[0] == "SET" && len(args) > 3 && reply.Kind == driver.String && reply.Str == args[2]
		switch name := fakenode.CommandName(args); {
		case !counts && !half:
		case name == "GET" && i >= 2 && fakenode.CommandName(cmds[i-2].Args) == "ZADD":
			zadd, floor := cmds[i-2].Args[4].(string), replies[i-1]
			least, err := strconv.ParseFloat(floor.Str, 64)
			told := floor.Kind == driver.Nil || floor.Kind == driver.String && err == nil
			if replies[i-2].Kind == driver.Integer && told && reply.Kind == driver.String {
				fence := vow{node, reply.Str, zadd}
				w.fenced[fence] = w.fenced[fence] || replies[i-2].Int == 1 && int64(least) < int64(atoi(zadd))
			}
		case !counts:
		case name == "GET" && i >= 1 && fakenode.CommandName(cmds[i-1].Args) == "PEXPIRE":
			if replies[i-1].Kind != driver.Failure && reply.Kind == driver.String {
				w.granted[vow{node, reply.Str, ""}] = time.Now()
			}
		case together(args):
			for i, token := range tokensOf(args) {
				if reply.Kind == driver.Integer && reply.Int >= 0 && reply.Int < 1<<len(tokensOf(args)) && reply.Int>>i&1 == 1 {
					w.granted[vow{node, token.(string), ""}] = time.Now()
				}
			}
		case name != "GET" && grants(args, reply):
			w.granted[vow{node, grantee(args), ""}] = time.Now()
			if takes(args) { // one that stands in line: the script counts
				fence := vow{node, grantee(args), args[6+atoi(args[2])].(string)}
				w.fenced[fence] = w.fenced[fence] || reply.Int > 0
			}
		}
	}
}

// counts reports whether what was granted in a batch is a vote.
func (w *witness) counts(cmds []driver.Command, replies []driver.Reply) bool {
	if w.guard > 0 {
		look := len(cmds) - 2 // the last one: one at the head is somebody else's
		for look > 0 && cmds[look+1].Args[0] != "HMGET" {
			look--
		}
		if look < 1 || len(replies) < look+2 || !w.admits(replies[look], replies[look+1]) {
			return false
		}
	}
	if w.clockGuard {
		seen := false
		for i, reply := range replies {
			seen = seen || cmds[i].Args[0] == "TIME" && reply.Kind == driver.Array && len(reply.Elems) == 2
		}
		if !seen {
			return false
		}
	}
	if w.wait != "" {
		at := slices.IndexFunc(cmds, fakenode.IsProof)
		if at < 0 || len(replies) <= at || cmds[at].Args[0] != w.wait {
			return false
		}
		reply := replies[at]
		if w.wait == "WAITAOF" {
			if reply.Kind != driver.Array || len(reply.Elems) != 2 || reply.Elems[0].Kind != driver.Integer || reply.Elems[0].Int < 1 {
				return false
			}
			reply = reply.Elems[1]
		}
		return reply.Kind == driver.Integer && reply.Int >= w.replicas
	}
	return true
}

// roleLine and historyLine are what counts in INFO.
var (
	roleLine    = regexp.MustCompile(`(?s)(?:\A|\n)role:(.*?)(?:\r\n|\z)`)
	historyLine = regexp.MustCompile(`(?s)(?:\A|\n)master_replid:(.*?)(?:\r\n|\z)`)
)

// admits reports whether a look lets the node vote.
func (w *witness) admits(info, records driver.Reply) bool {
	role, id := roleLine.FindStringSubmatch(info.Str), historyLine.FindStringSubmatch(info.Str)
	if info.Kind != driver.String || role == nil || role[1] != "master" || id == nil || len(id[1]) != 40 ||
		records.Kind != driver.Array || len(records.Elems) != 3 {
		return false
	}
	for _, elem := range records.Elems {
		if elem.Kind != driver.String {
			return false
		}
	}
	age, err := strconv.ParseInt(records.Elems[2].Str, 10, 64)
	return records.Elems[0].Str == id[1] && records.Elems[1].Str == fmt.Sprintf("%d 0:%d", w.guard.Milliseconds(), w.nodes) &&
		(err == nil || errors.Is(err, strconv.ErrRange)) && age >= (w.guard+w.guard/8).Microseconds()+1000
}

// grantee is the token for which a command asks.
func grantee(args []any) string {
	switch args[0] {
	case "SET":
		return args[2].(string)
	case "EVAL", "EVALSHA":
		if takes(args) {
			return args[3+atoi(args[2])].(string)
		}
		return args[4].(string)
	}
	return ""
}

// takes reports whether a command is a try of one who heeds those in line.
func takes(args []any) bool {
	return (args[0] == "EVAL" || args[0] == "EVALSHA") && (args[1] == scripts.Take.Digest || args[1] == scripts.Take.Source)
}

// together reports whether a command is several extensions.
func together(args []any) bool {
	return (args[0] == "EVAL" || args[0] == "EVALSHA") && (args[1] == scripts.Extend.Digest || args[1] == scripts.Extend.Source)
}

// tokensOf are the tokens of such a command.
func tokensOf(args []any) []any {
	count := atoi(args[2])
	return args[3+count : 3+2*count]
}

// grants reports whether the answer to a command has the form of one that gives the asking
// token the key, or its number a place.
func grants(args []any, reply driver.Reply) bool {
	switch fakenode.CommandName(args) {
	case "SET":
		return len(args) > 3 && (reply.Kind == driver.Nil || reply.Kind == driver.String && reply.Str == args[2])
	case "SET IFEQ":
		return args[5] == "PX" && reply.Kind == driver.String && reply.Str == "OK"
	case "ZADD":
		return reply.Kind == driver.Integer && reply.Int == 1
	case "EVAL", "EVALSHA":
		if takes(args) {
			return reply.Kind == driver.Integer && reply.Int != 0 && -4 <= reply.Int && reply.Int <= 4
		}
		if args[1] != scripts.Hold.Digest && args[1] != scripts.Hold.Source {
			return false
		}
		most := int64(2)
		if len(args) > 6 {
			most = 3
		}
		return reply.Kind == driver.Integer && reply.Int >= 1 && reply.Int <= most
	case "GET":
		return reply.Kind == driver.String // the token may be that of whoever asks
	}
	return false
}

// confirmsLock fails the test if a lock was granted by fewer nodes than a quorum since then.
func (w *witness) confirmsLock(t *testing.T, lock *Lock, since time.Time) {
	t.Helper()
	w.confirms(t, lock, "a lock", since, func(fence vow) bool { return w.fenced[fence] })
}

// confirmsLease does the same for a lease that was prolonged. A fence that is carried along
// need not be new to the node.
func (w *witness) confirmsLease(t *testing.T, lock *Lock, since time.Time) {
	t.Helper()
	w.confirms(t, lock, "an extension", since, func(fence vow) bool { _, known := w.fenced[fence]; return known })
}

func (w *witness) confirms(t *testing.T, lock *Lock, what string, since time.Time, fenced func(vow) bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	b := lock.locker.board
	keys, numbers := 0, 0 // a fence that was raised has a quorum of its own
	for node := range b.Nodes {
		if at, granted := w.granted[vow{node, lock.Token(), ""}]; granted && !at.Before(since) {
			keys++
		}
		if fenced(vow{node, lock.Token(), strconv.FormatInt(lock.Fence(), 10)}) {
			numbers++
		}
	}
	if keys < b.Quorum || w.fences && numbers < b.Quorum {
		t.Errorf("%s counts as had, and of %d nodes %d have given the key and %d have taken the fence, want %d: %v",
			what, len(b.Nodes), keys, numbers, b.Quorum, lock.Votes())
	}
}
