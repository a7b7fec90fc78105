package redlock

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // a master_replid is as long
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A fakeNode is a server and the way to it, in memory and in virtual time. It knows
// the commands of the lock, and the faults of a network.
type fakeNode struct {
	name string

	mu         sync.Mutex
	keys       map[string]fakeKey
	loaded     map[string]bool // digests
	info       string
	delay      time.Duration
	away       time.Duration                     // the delay of a day's node that is well
	jitter     time.Duration                     // up to so much is added to the delay
	hung       chan struct{}                     // closed on resume; nil: not hung
	buffer     []func()                          // what reached a hung server
	refused    error                             // of Do
	answer     func(args []any) *driver.Reply    // instead of running the command
	lose       func(name string) bool            // run it, but lose the reply
	hold       func(name string) <-chan struct{} // answer only when it is closed
	log        []string
	calls      int
	block      chan struct{} // a driver that ignores its context
	ears       map[*fakeSubscription]bool
	mute       bool // the user may neither subscribe nor publish
	deaf       bool // what is published gets lost
	published  []string
	subscribed int                             // calls of Subscribe
	cuts       int                             // so many calls fail before anything arrives
	fences     map[string]map[string]int64     // by the name of the set: numbers by their members
	readers    map[string]map[string]time.Time // by the name of the set: tokens by their expiry
	waits      map[string]map[string]fakeKey   // by the name of the hash: fields by what they say
	lines      map[string]map[string]fakeTicket
	skew       time.Duration // its clock is so far ahead
	starts     int           // over
	kind       fakeKind
	scriptless bool      // the user may not run scripts
	instead    *fakeNode // the server that the way leads to; nil: this one
	next       *fakeNode // the same for connections that are made anew; nil: no change
	renewed    int       // calls of Renew
	ran        io.Writer // gets every command, and when it was run
}

// aList is what a key holds that is no string.
const aList = "a list"

type fakeKey struct {
	token string
	until time.Time
}

func newFakeNode(name string) *fakeNode {
	return &fakeNode{
		name: name,
		keys: map[string]fakeKey{}, loaded: map[string]bool{}, fences: map[string]map[string]int64{}, readers: map[string]map[string]time.Time{},
		waits: map[string]map[string]fakeKey{},
		info:  fakeInfo(name),
	}
}

// The replies of a server.
func integer(n int64) driver.Reply { return driver.Reply{Kind: driver.Integer, Int: n} }

func bulk(text string) driver.Reply { return driver.Reply{Kind: driver.String, Str: text} }

func refusal(text string) driver.Reply { return driver.Reply{Kind: driver.Failure, Str: text} }

func array(elems ...driver.Reply) driver.Reply { return driver.Reply{Kind: driver.Array, Elems: elems} }

// fakeInfo is what a server says of itself.
func fakeInfo(name string) string {
	return "run_id:" + name + "\r\nmaster_replid:" + fakeHistory(name) + "\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
}

// fakeHistory is the master_replid of a server.
func fakeHistory(name string) string {
	digest := sha1.Sum([]byte(name)) //nolint:gosec // it has the right length
	return hex.EncodeToString(digest[:])
}

// fakeNodes returns n nodes, and what [New] wants of them.
func fakeNodes(n int) ([]*fakeNode, []driver.Node) {
	fakes := make([]*fakeNode, n)
	for i := range n {
		fakes[i] = newFakeNode(fmt.Sprintf("node-%d", i+1))
	}
	return fakes, driversOf(fakes)
}

// newLocker returns a Locker on fake nodes that is closed with the test.
func newLocker(t *testing.T, n int, options ...Option) (*Locker, []*fakeNode) {
	t.Helper()
	fakes, _ := fakeNodes(n)
	return another(t, fakes, options...), fakes
}

// driversOf is what [New] wants of nodes.
func driversOf[N interface {
	driver.Driver
	called() string
}](fakes []N) (nodes []driver.Node) {
	for _, f := range fakes {
		nodes = append(nodes, driver.Node{Name: f.called(), Driver: f})
	}
	return nodes
}

func (f *fakeNode) called() string { return f.name }

// another returns one more Locker on the nodes, as another process has.
func another[N interface {
	driver.Driver
	called() string
}](t *testing.T, fakes []N, options ...Option) *Locker {
	t.Helper()
	locker, err := New(driversOf(fakes), options...)
	must(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

var errCut = errors.New("connection reset by peer")

func (f *fakeNode) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	f.mu.Lock()
	f.calls++
	delay, hung, block, refused := f.delay, f.hung, f.block, f.refused
	var jitter time.Duration
	if f.jitter > 0 {
		jitter = rand.N(f.jitter) //nolint:gosec // a network is no secret
	}
	cut := f.cuts > 0
	if ctx.Err() == nil && refused == nil {
		f.cuts--
	}
	f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ctx.Err(), driver.ErrNotSent)
	case refused != nil:
		return nil, refused
	case cut:
		return nil, errCut
	}
	if block != nil {
		<-block
	}
	if hung != nil {
		f.mu.Lock()
		f.buffer = append(f.buffer, func() { f.run(cmds) })
		f.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if delay+jitter > 0 && !sleep(ctx, delay/2+jitter) {
		return nil, ctx.Err()
	}
	f.mu.Lock()
	if to := f.instead; to != nil {
		f.mu.Unlock()
		to.mu.Lock()
		replies, _ := to.run(cmds)
		to.mu.Unlock()
		return replies, nil
	}
	replies, lost := f.run(cmds)
	var wait <-chan struct{}
	for _, cmd := range cmds {
		if f.hold != nil && wait == nil {
			wait = f.hold(commandName(cmd.Args))
		}
	}
	f.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if lost {
		return replies, errCut
	}
	if delay > 0 && !sleep(ctx, delay/2) {
		return nil, ctx.Err()
	}
	return replies, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 { // a timer that is due at once crashes Go 1.26's race detector in a bubble
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// run runs the commands in order, up to the first whose reply is lost. f.mu is held.
func (f *fakeNode) run(cmds []driver.Command) (replies []driver.Reply, lost bool) {
	for _, cmd := range cmds {
		name := commandName(cmd.Args)
		f.log = append(f.log, name)
		if f.ran != nil {
			_, _ = fmt.Fprintln(f.ran, time.Now().UnixNano(), f.name, cmd.Args)
		}
		if f.answer != nil {
			if reply := f.answer(cmd.Args); reply != nil {
				replies = append(replies, *reply)
				continue
			}
		}
		reply := f.one(cmd.Args)
		if f.lose != nil && f.lose(name) {
			return replies, true
		}
		replies = append(replies, reply)
	}
	return replies, false
}

func (f *fakeNode) one(args []any) driver.Reply {
	arg := func(i int) string { return args[i].(string) }
	if reply := f.native(args); reply != nil {
		return *reply
	}
	switch arg(0) {
	case "INFO":
		return bulk(f.info)
	case "SET": // SET key token [NX] GET PX ttl, or of a record SET key text [NX] GET
		old, ok := f.get(arg(1))
		switch {
		case ok && old.token == aList:
			return wrongType
		case ok && args[3] == "NX":
		case len(args) < 6 && args[3] != "PX":
			f.keys[arg(1)] = fakeKey{arg(2), f.now().Add(1000 * time.Hour)}
		default:
			f.set(arg(1), arg(2), args[len(args)-1].(string))
		}
		if ok {
			return bulk(old.token)
		}
		return driver.Reply{}
	case "GET":
		switch key, ok := f.get(arg(1)); {
		case ok && key.token == aList:
			return wrongType
		case ok:
			return bulk(key.token)
		}
		return driver.Reply{}
	case "MGET":
		reply := driver.Reply{Kind: driver.Array}
		for i := range args[1:] {
			key, ok := f.get(arg(1 + i))
			reply.Elems = append(reply.Elems, driver.Reply{})
			if ok && key.token != aList {
				reply.Elems[i] = bulk(key.token)
			}
		}
		return reply
	case "DEL":
		delete(f.keys, arg(1))
		return integer(1)
	case "PTTL":
		left := int64(-2)
		if key, ok := f.get(arg(1)); ok {
			left = key.until.Sub(f.now()).Milliseconds()
		}
		return integer(left)
	case "EVAL", "EVALSHA":
		return f.script(args)
	case "TIME":
		now := f.now()
		return array(bulk(strconv.FormatInt(now.Unix(), 10)), bulk(strconv.Itoa(now.Nanosecond()/1000)))
	case "ZADD", "ZSCORE", "ZRANGE", "ZREMRANGEBYSCORE":
		if readers, ok := f.readers[arg(1)]; ok && arg(0) == "ZSCORE" {
			return f.score(readers, arg(2))
		}
		return f.counter(args)
	}
	return refusal("ERR unknown command")
}

// fence returns the counter of a key, and floor the floor of its set; 0: there is none. f.mu is
// held.
func (f *fakeNode) fence(key string) int64 { return f.fences[protocol.FenceSet(key).(string)][key] }

func (f *fakeNode) floor(key string) int64 { return f.fences[protocol.FenceSet(key).(string)][""] }

// setFence gives a member of a key's set a number: the key is its counter, and "" the floor.
func (f *fakeNode) setFence(key, member string, number int64) {
	set := protocol.FenceSet(key).(string)
	if f.fences[set] == nil {
		f.fences[set] = map[string]int64{}
	}
	f.fences[set][member] = number
}

// counters are the members of a set that are keys, from the least number to the greatest.
func (f *fakeNode) counters(set string) []string {
	members := slices.Collect(maps.Keys(f.fences[set]))
	slices.SortFunc(members, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.fences[set][a], f.fences[set][b]), cmp.Compare(a, b))
	})
	return members
}

// counter runs what the fences need of sorted sets: ZADD set [GT|NX] [CH] number member, ZSCORE set
// member, ZRANGE set from to WITHSCORES and ZREMRANGEBYSCORE set -inf (number.
func (f *fakeNode) counter(args []any) driver.Reply {
	set, last := args[1].(string), args[len(args)-1].(string)
	score := func(member string) driver.Reply {
		return bulk(strconv.FormatFloat(float64(f.fences[set][member]), 'g', 17, 64))
	}
	reply := driver.Reply{Kind: driver.Integer}
	switch args[0] {
	case "ZADD":
		p, _ := strconv.ParseInt(args[len(args)-2].(string), 10, 64)
		known, there := f.fences[set][last]
		if there && (args[2] == "NX" || p == known || args[2] == "GT" && p < known) {
			return reply
		}
		if f.fences[set] == nil {
			f.fences[set] = map[string]int64{}
		}
		f.fences[set][last] = p
		reply.Int = 1
	case "ZSCORE":
		if _, there := f.fences[set][last]; !there {
			return driver.Reply{}
		}
		return score(last)
	case "ZRANGE":
		reply.Kind = driver.Array
		members := f.counters(set)
		if at, _ := strconv.Atoi(args[2].(string)); at < len(members) {
			reply.Elems = []driver.Reply{{Kind: driver.String, Str: members[at]}, score(members[at])}
		}
	case "ZREMRANGEBYSCORE":
		bound, exclusive := strings.CutPrefix(last, "(")
		below, _ := strconv.ParseInt(bound, 10, 64)
		for member, number := range f.fences[set] {
			if number < below || !exclusive && number == below {
				delete(f.fences[set], member)
				reply.Int++
			}
		}
	}
	return reply
}

// script runs a script that is known by its digest, or comes along.
func (f *fakeNode) script(args []any) driver.Reply {
	for _, s := range []struct {
		*scripts.Script
		run func(f *fakeNode, args []any) driver.Reply
	}{
		{scripts.Release, (*fakeNode).release},
		{scripts.Hold, (*fakeNode).holds},
		{scripts.Extend, (*fakeNode).extend},
		{scripts.Slot, (*fakeNode).slot},
		{scripts.Take, (*fakeNode).take},
		{scripts.Leave, (*fakeNode).leave},
		{scripts.Share, (*fakeNode).share},
		{scripts.Unshare, (*fakeNode).unshare},
		{scripts.Raise, (*fakeNode).raise},
		{scripts.Waits, (*fakeNode).keepWaits},
	} {
		f.loaded[s.Digest] = f.loaded[s.Digest] || args[1] == s.Source
		switch {
		case args[1] == s.Source, args[1] == s.Digest && f.loaded[s.Digest]:
			return s.run(f, args[2:])
		case args[1] == s.Digest:
			return refusal("NOSCRIPT No matching script.")
		}
	}
	return refusal("ERR a script that the fake does not know")
}

// keepWaits runs the script of that name: the hash; the field, what it says, and for how long.
// Nonces are fields of their own here.
func (f *fakeNode) keepWaits(args []any) driver.Reply {
	args = args[1:]
	name := args[0].(string)
	if f.waits[name] == nil {
		f.waits[name] = map[string]fakeKey{}
	}
	hash := f.waits[name]
	if len(args) > 1 {
		delete(hash, args[1].(string))
		if says := args[2].(string); says != "" {
			hash[args[1].(string)] = fakeKey{says, f.expiry(args[3].(string))}
		}
	}
	elems := []driver.Reply{integer(f.now().UnixMicro()), bulk("")}
	for field, held := range hash {
		switch {
		case !f.now().Before(held.until):
			delete(hash, field)
		case strings.HasPrefix(field, "nonce:"):
			elems[1].Str += " " + held.token
		case len(args) == 1:
			elems = append(elems, bulk(field), bulk(held.token))
		}
	}
	return array(elems...)
}

// slot runs the script of that name: how many keys; slots, the permits, the line, sets of counters,
// slots to look at; token, milliseconds, the number of permits, how many slots, number; of one who
// heeds those in line rank, ticket, how long it stays, and how many somebody may want.
func (f *fakeNode) slot(args []any) driver.Reply {
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
	counted, ok := f.get(permits)
	if ok && counted.token != arg(2) {
		return bulk(counted.token)
	}
	inTheWay, mine := []string(nil), true
	for _, key := range slots {
		held, ok := f.get(key.(string))
		mine = mine && ok && held.token == arg(0)
		if ok && held.token != arg(0) {
			inTheWay = append(inTheWay, strings.TrimPrefix(held.token, aList))
		}
	}
	kept := int64(0)
	if arg(5) != "" && !mine {
		rank, _ := strconv.ParseInt(arg(5), 10, 64)
		most, _ := strconv.Atoi(arg(8))
		ticket, left, others, _ := f.before(line, &fakeLine{own: arg(6), rank: rank, most: most})
		if ticket != "" {
			kept, inTheWay = left, append(inTheWay, "ql:line "+ticket)
		} else if others {
			kept = -1
		}
		if arg(7) != "0" {
			f.ticket(line, arg(6), rank, arg(7))
		}
	}
	if len(inTheWay) > 0 {
		least, there := int64(-1), ""
		for _, key := range look {
			other, ok := f.get(key.(string))
			if !ok {
				there += "0"
				continue
			}
			there += "1"
			if left := other.until.Sub(f.now()).Milliseconds(); least < 0 || left < least {
				least = left
			}
		}
		return array(bulk(inTheWay[0]), integer(least), bulk(there), integer(f.now().UnixMicro()), integer(kept))
	}
	said := int64(1)
	for _, key := range slots {
		said = max(said, f.lease([]any{key, arg(0), arg(1)}))
	}
	if !f.accepts(sets, slots, arg(4)) {
		said = 0
	}
	ms, _ := strconv.ParseInt(arg(1), 10, 64)
	until := f.now().Add(2 * time.Duration(ms) * time.Millisecond)
	if counted.until.After(until) {
		until = counted.until
	}
	f.keys[permits] = fakeKey{arg(2), until}
	return integer(said)
}

// accepts counts a number for keys, as scripts do.
func (f *fakeNode) accepts(sets, keys []any, number string) bool {
	all := true
	for i, set := range sets {
		p, _ := strconv.ParseInt(number, 10, 64)
		above := f.fences[set.(string)][""] < p
		all = above && f.counter([]any{"ZADD", set, "GT", "CH", number, keys[i]}).Int == 1 && all
	}
	return all
}

// wrongType is what a server says of a key that holds no string.
var wrongType = refusal("WRONGTYPE Operation against a key holding the wrong kind of value")

// holds runs the script that does.
func (f *fakeNode) holds(args []any) driver.Reply {
	if held, _ := f.get(args[1].(string)); held.token == aList {
		return wrongType
	}
	return integer(f.lease(args[1:]))
}

// lease is what that script does: key, token, milliseconds and, if there is one, the token
// that is given away.
func (f *fakeNode) lease(args []any) int64 {
	key, token, ms := args[0].(string), args[1].(string), args[2].(string)
	held, ok := f.get(key)
	if len(args) > 3 && ok && held.token == args[3].(string) && held.token != token {
		f.set(key, token, ms)
		return 3 // taken over
	}
	switch {
	case !ok:
		f.set(key, token, ms)
		return 2 // set anew
	case held.token != token:
		return 0
	}
	if until := f.expiry(ms); until.After(held.until) {
		f.keys[key] = fakeKey{token, until}
	}
	return 1
}

// extend runs the script of that name: count, keys, tokens, milliseconds.
func (f *fakeNode) extend(args []any) driver.Reply {
	count, _ := strconv.Atoi(args[0].(string))
	keys, tokens, times := args[1:1+count], args[1+count:1+2*count], args[1+2*count:]
	for _, key := range keys {
		if held, _ := f.get(key.(string)); held.token == aList {
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
func (f *fakeNode) release(args []any) driver.Reply {
	deleted, heard := int64(0), int64(0)
	count, _ := strconv.Atoi(args[0].(string))
	for i := range count {
		key, token := args[1+i].(string), args[1+count+i].(string)
		if held, _ := f.get(key); held.token == token {
			delete(f.keys, key)
			deleted += 1 << i
			if len(args) > 1+2*count && !f.mute && f.publish(args[1+2*count].(string)+key) > 0 {
				heard += 1 << i
			}
		}
	}
	if len(args) > 1+2*count {
		if deleted += f.listening(protocol.WakeChannel) << 32; f.mute && deleted > 0 {
			deleted = -1 - deleted
		}
	}
	if heard > 0 {
		return array(integer(deleted), integer(heard))
	}
	return integer(deleted)
}

func (f *fakeNode) get(key string) (fakeKey, bool) {
	held, ok := f.keys[key]
	if ok && !f.now().Before(held.until) {
		delete(f.keys, key)
		return fakeKey{}, false
	}
	return held, ok
}

func (f *fakeNode) set(key, token, ms string) { f.keys[key] = fakeKey{token, f.expiry(ms)} }

// now is the server's clock.
func (f *fakeNode) now() time.Time { return time.Now().Add(f.skew) }

func (f *fakeNode) expiry(ms string) time.Time {
	n, _ := strconv.ParseInt(ms, 10, 64)
	return f.now().Add(time.Duration(n) * time.Millisecond)
}

// change changes the node's settings.
func (f *fakeNode) change(how func(f *fakeNode)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

// stop makes the node silent, as a server that gets SIGSTOP: what it is sent lies in
// its buffers.
func (f *fakeNode) stop() { f.change(func(f *fakeNode) { f.hung = make(chan struct{}) }) }

// resume makes the node run what lies in its buffers, the last connection's first,
// and answer again.
func (f *fakeNode) resume() {
	f.change(func(f *fakeNode) {
		for i := len(f.buffer) - 1; i >= 0; i-- {
			f.buffer[i]()
		}
		f.buffer = nil
		if f.hung != nil {
			close(f.hung)
		}
		f.hung = nil
	})
}

// restart starts the server anew and empty, as another history of its own.
func (f *fakeNode) restart() {
	f.change(func(f *fakeNode) {
		f.starts++
		f.info = fakeInfo(f.name + "/" + strconv.Itoa(f.starts))
		clear(f.keys)
		clear(f.fences)
		clear(f.readers)
		clear(f.loaded)
	})
}

// token returns who has the key at the node, and for how long.
func (f *fakeNode) token(key string) (string, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, _ := f.get(key)
	return held.token, held.until.Sub(f.now())
}

// plant sets a key as somebody else does.
func (f *fakeNode) plant(key, token string, ttl time.Duration) {
	f.change(func(f *fakeNode) { f.keys[key] = fakeKey{token, f.now().Add(ttl)} })
}

// count returns how often a command arrived, once all is done that needs no time.
func (f *fakeNode) count(name string) (n int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counted(name)
}

func (f *fakeNode) counted(name string) (n int) {
	for _, logged := range f.log {
		if logged == name {
			n++
		}
	}
	return n
}

// stray returns the nodes at which somebody has the key.
func stray(fakes []*fakeNode, key string) (names []string) {
	for _, f := range fakes {
		if token, _ := f.token(key); token != "" {
			names = append(names, f.name)
		}
	}
	return names
}

// batches returns how many batches arrived, once all is done that needs no time.
func (f *fakeNode) batches() int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}
