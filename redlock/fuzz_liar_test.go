package redlock

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
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
	"CAD", "CAS", "PUBLISH", "PUBSUB", "WAIT", "WAITAOF", "ear", "MGET", "ZRANGE", "ZREMRANGEBYSCORE",
}

// mostLiars is how many nodes the first byte of a lie tells apart.
const mostLiars = 5

// liars returns n nodes that tell these lies.
func liars(n int, kind fakeKind, scriptless bool, w *witness, data []byte) []*liar {
	nodes := make([]*liar, n)
	for i, node := range proofNodes(n) {
		node.kind, node.scriptless = kind, scriptless
		nodes[i] = &liar{proofNode: node, index: i, witness: w, lies: map[string][]lie{}}
		node.answer = nodes[i].answers
	}
	for ; len(data) >= 3; data = data[3:] {
		node, about := nodes[int(data[0])%mostLiars%n], told[int(data[0])/mostLiars%len(told)]
		node.lies[about] = append(node.lies[about], lie{data[1], data[2]})
	}
	return nodes
}

// driversOf is what [New] wants of the nodes.
func driversOf(nodes []*liar) []driver.Node {
	all := make([]driver.Node, len(nodes))
	for i, n := range nodes {
		all[i] = driver.Node{Name: n.name, Driver: n}
	}
	return all
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
	if !sleep(ctx, 100*time.Microsecond) {
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
		return nil, errCut
	case 1:
		return nil, driver.NotSent(errCut)
	case 2:
		return replies[:len(replies)/2], errCut
	case 3:
		return replies, errCut
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
			n.change(func(f *fakeNode) { f.run(cmds) })
		})
		return nil, ctx.Err()
	default:
		if !sleep(ctx, time.Duration(l.detail)*4*time.Millisecond) {
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
	if at := slices.IndexFunc(cmds, waits); err == nil && at >= 0 {
		if l, ok := n.next(cmds[at].Args[0].(string)); ok && !n.fair {
			replies[at] = l.about(cmds[at].Args, replies[at])
		}
	}
	return replies, err
}

// answers is asked before a command is run. The node's mutex is held.
func (n *liar) answers(args []any) *driver.Reply {
	l, ok := n.next(commandName(args))
	if !ok {
		return nil
	}
	var honest driver.Reply
	if l.kind&lieRuns != 0 {
		honest = n.one(args)
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
		return nil, errCut
	}
	open, err := n.fakeNode.Subscribe(ctx, hear)
	if err != nil || !ok {
		return open, err
	}
	notice := driver.Notice{Kind: driver.NoticeKind(l.detail), Channel: texts[int(l.detail)%len(texts)]}
	if l.kind%2 == 0 {
		notice.Channel = protocol.WakeChannel + "k"
	}
	if l.kind%4 < 2 {
		notice.Err = errCut
	}
	open.(*fakeSubscription).put(notice)
	return open, nil
}

// check fails the test if somebody has asked in a loop, or after the Locker was closed.
func (n *liar) check(t *testing.T) {
	t.Helper()
	n.liarMu.Lock()
	defer n.liarMu.Unlock()
	if n.calls > mostCalls {
		t.Errorf("%s was asked more than %d times", n.name, mostCalls)
	}
	if n.late > 0 {
		t.Errorf("%s was asked %d times after the Locker was closed", n.name, n.late)
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
