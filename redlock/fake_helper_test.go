package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// The nodes of most tests.
type (
	fakeNode  = fakenode.Node
	proofNode = fakenode.Durable
)

// fakeNodes returns n nodes, and what [New] wants of them.
func fakeNodes(n int) ([]*fakeNode, []driver.Node) {
	fakes := make([]*fakeNode, n)
	for i := range n {
		fakes[i] = fakenode.New(fmt.Sprintf("node-%d", i+1))
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
	Name() string
}](fakes []N) (nodes []driver.Node) {
	for _, f := range fakes {
		nodes = append(nodes, driver.Node{Name: f.Name(), Driver: f})
	}
	return nodes
}

// another returns one more Locker on the nodes, as another process has. Its leases are fixed, unless
// they are taken WithRenewal: most tests are about what leases and nodes do by themselves.
func another[N interface {
	driver.Driver
	Name() string
}](t *testing.T, fakes []N, options ...Option) *Locker {
	t.Helper()
	locker, err := New(driversOf(fakes), append([]Option{WithoutRenewal()}, options...)...)
	must(t, err)
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// stray returns the nodes at which somebody has the key.
func stray(fakes []*fakeNode, key string) (names []string) {
	for _, f := range fakes {
		if token, _ := f.Token(key); token != "" {
			names = append(names, f.Name())
		}
	}
	return names
}

// proofNodes returns n nodes on which all is safe at once.
func proofNodes(n int) []*proofNode {
	nodes := make([]*proofNode, n)
	for i := range nodes {
		nodes[i] = fakenode.NewDurable(fmt.Sprintf("node-%d", i+1))
	}
	return nodes
}

func atoi(arg any) int {
	n, _ := strconv.Atoi(arg.(string))
	return n
}

// plainNodes are the nodes as the helpers of other tests want them.
func plainNodes(nodes []*proofNode) []*fakeNode {
	plain := make([]*fakeNode, len(nodes))
	for i, n := range nodes {
		plain[i] = n.Node
	}
	return plain
}

// bubble runs a test of that name in virtual time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// some is how many of the rounds, rows or seeds of a long test are played: an eighth with -short, which is for the race
// detector.
func some(all int) int {
	if testing.Short() {
		return max(1, all/8)
	}
	return all
}

// must ends the test if there is an error. It is for the test's own goroutine.
func must(t *testing.T, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(append(what, err)...)
	}
}

// noError fails the test if there is an error.
func noError(t *testing.T, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Error(append(what, err)...)
	}
}

// returns fails the test unless the last result of the call is such an error; nil is one, too.
func returns(t *testing.T, want error, what ...any) func(results ...any) {
	t.Helper()
	return func(results ...any) {
		t.Helper()
		if err, _ := results[len(results)-1].(error); !errors.Is(err, want) {
			t.Error(append(what, fmt.Sprintf("%v, want %v", err, want))...)
		}
	}
}

// says fails the test unless the last result of the call is such an error that has these texts.
func says(t *testing.T, want error, texts ...string) func(results ...any) {
	t.Helper()
	return func(results ...any) {
		t.Helper()
		err, _ := results[len(results)-1].(error)
		for _, text := range texts {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want %v that says %q", err, want, text)
			}
		}
	}
}

// wantWithin fails the test if more time has passed than that.
func wantWithin(t *testing.T, most time.Duration, began time.Time, what ...any) {
	t.Helper()
	if took := time.Since(began); took > most {
		t.Error(append(what, fmt.Sprintf("%v, want %v at the most", took, most))...)
	}
}

// wantFree fails the test if somebody has the key at a node.
func wantFree(t *testing.T, fakes []*fakeNode, key string, what ...any) {
	t.Helper()
	if names := stray(fakes, key); names != nil {
		t.Error(append(what, fmt.Sprintf("%q is left at %v", key, names))...)
	}
}

// wantHeld fails the test unless a quorum says of a lock whether it is held.
func wantHeld(t *testing.T, lock *Lock, want bool) {
	t.Helper()
	if held, err := lock.Confirm(t.Context()); held != want || err != nil {
		t.Errorf("Confirm = %v, %v, want %v", held, err, want)
	}
}

// forEach does something with each of the nodes.
func forEach[N any](nodes []N, do func(N)) {
	for _, n := range nodes {
		do(n)
	}
}

// changeAll changes the settings of all nodes.
func changeAll[N interface{ Change(how func(*fakeNode)) }](nodes []N, how func(f *fakeNode)) {
	forEach(nodes, func(n N) { n.Change(how) })
}

// setAll changes how all nodes prove.
func setAll(nodes []*proofNode, how func(f *proofNode)) {
	forEach(nodes, func(f *proofNode) { f.ChangeProofs(how) })
}

// plant gives somebody a key at the nodes.
func plant(fakes []*fakeNode, key, token string, ttl time.Duration) {
	forEach(fakes, func(f *fakeNode) { f.Plant(key, token, ttl) })
}

// far puts the nodes at a distance of one round trip of so long.
func far[N interface{ Change(how func(*fakeNode)) }](nodes []N, trip time.Duration) {
	changeAll(nodes, func(f *fakeNode) { f.Delay = trip })
}

var errRefused = fmt.Errorf("dial tcp: connection refused: %w", driver.ErrNotSent)

func refuse(f *fakeNode) { f.Refused = errRefused }

// before does something at the nodes before each command of that name; "" is any. The node's mutex is
// held.
func before(nodes []*fakeNode, command string, do func(f *fakeNode, args []any)) {
	changeAll(nodes, func(f *fakeNode) {
		f.Answer = func(args []any) *driver.Reply {
			if command == "" || fakenode.CommandName(args) == command {
				do(f, args)
			}
			return nil
		}
	})
}

// answering answers some commands so, instead of running them.
func answering(reply driver.Reply, which func(args []any) bool) func([]any) *driver.Reply {
	return func(args []any) *driver.Reply {
		if !which(args) {
			return nil
		}
		return &reply
	}
}

// refusing answers all that writes with an error of the server.
func refusing(text string) func([]any) *driver.Reply {
	return answering(fakenode.Refusal(text), func(args []any) bool { return slices.Contains([]any{"SET", "EVAL", "EVALSHA"}, args[0]) })
}

// failing answers one command with an error reply.
func failing(command, text string) func([]any) *driver.Reply {
	return answering(driver.Reply{Kind: driver.Failure, Str: text}, func(args []any) bool { return args[0] == command })
}

// async makes a call in a goroutine, and returns what it returns.
func async(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// passing releases what was acquired.
func passing[L releaser](lock L, err error) error {
	if err != nil {
		return err
	}
	return lock.Release()
}

type releaser interface {
	Release() error
}

func mustRelease(t *testing.T, lock releaser) {
	t.Helper()
	must(t, lock.Release(), "Release of a lock that is held")
}

// mustTry takes a lock that is free. Its last votes may still be on their way.
func mustTry(t *testing.T, locker *Locker, key string, options ...AcquireOption) *Lock {
	t.Helper()
	return mustAcquireUnder(t.Context(), t, locker, key, options...)
}

func mustAcquireUnder(ctx context.Context, t *testing.T, locker *Locker, key string, options ...AcquireOption) *Lock {
	t.Helper()
	lock, err := locker.TryAcquire(ctx, key, options...)
	must(t, err, "TryAcquire of a free key")
	t.Cleanup(func() { runtime.KeepAlive(lock) }) // or a renewed one is forgotten
	return lock
}

// mustAcquire takes a lock that is free, and waits for all its votes.
func mustAcquire(t *testing.T, locker *Locker, key string, options ...AcquireOption) *Lock {
	t.Helper()
	lock := mustTry(t, locker, key, options...)
	synctest.Wait()
	return lock
}

// mustAcquireAll takes keys that are free.
func mustAcquireAll(t *testing.T, locker *Locker, keys []string, options ...AcquireOption) *Lock {
	t.Helper()
	lock, err := locker.TryAcquireAll(t.Context(), keys, options...)
	must(t, err, "TryAcquireAll(", keys, ")")
	t.Cleanup(func() { runtime.KeepAlive(lock) })
	return lock
}

// mustShare acquires a shared lock that nothing is in the way of.
func mustShare(t *testing.T, locker *Locker, key string, options ...AcquireOption) *Lock {
	t.Helper()
	lock, err := locker.TryAcquireShared(t.Context(), key, options...)
	must(t, err, "TryAcquireShared(", key, ")")
	t.Cleanup(func() { runtime.KeepAlive(lock) })
	synctest.Wait()
	return lock
}

// acquireAll takes so many locks at once.
func acquireAll(t *testing.T, locker *Locker, count int) []*Lock {
	t.Helper()
	locks := make([]*Lock, count)
	var group sync.WaitGroup
	for i := range locks {
		group.Go(func() {
			var err error
			if locks[i], err = locker.TryAcquire(t.Context(), fmt.Sprintf("k%03d", i)); err != nil {
				t.Errorf("TryAcquire %d of %d = %v", i+1, count, err)
			}
		})
	}
	group.Wait()
	return locks
}

// releaseAll releases locks at once, and returns what each Release returned.
func releaseAll(t *testing.T, locks []*Lock) []error {
	t.Helper()
	errs := make([]error, len(locks))
	var group sync.WaitGroup
	for i, lock := range locks {
		group.Go(func() { errs[i] = lock.Release() })
	}
	group.Wait()
	synctest.Wait()
	return errs
}

// An outcome of an Acquire that waits.
type waited struct {
	lock *Lock
	err  error
	at   time.Time
}

// waitFor acquires the key k in a goroutine, and returns once it waits.
func waitFor(ctx context.Context, locker *Locker, options ...AcquireOption) <-chan waited {
	result := make(chan waited, 1)
	go func() {
		lock, err := locker.Acquire(ctx, "k", options...)
		result <- waited{lock, err, time.Now()}
	}()
	synctest.Wait()
	return result
}

// mustGet returns the outcome of who waited, which must be a lock.
func mustGet(t *testing.T, result <-chan waited) waited {
	t.Helper()
	got := <-result
	must(t, got.err)
	return got
}

// warm makes the nodes known and their scripts loaded.
func warm(t *testing.T, locker *Locker) {
	t.Helper()
	lock := mustTry(t, locker, "warm")
	synctest.Wait() // or what has not left yet is not needed any more
	must(t, lock.Extend(t.Context(), time.Minute))
	synctest.Wait()
	mustRelease(t, lock)
	synctest.Wait()
}

// sent counts what may have set a key at a node.
func sent(f *fakeNode) int { return f.Count("SET") + f.Count("EVALSHA") + f.Count("EVAL") }

// recorder keeps the events of a Locker; kinds are those of its first node.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) option() Option {
	return WithHooks(Hooks{Node: func(e Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}})
}

func (r *recorder) kinds() (kinds []EventKind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Node == "node-1" {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// of returns the events of a kind, of all nodes, that say these texts.
func (r *recorder) of(kind EventKind, texts ...string) (events []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		lacks := func(text string) bool { return !strings.Contains(e.String(), text) }
		if e.Kind == kind && !slices.ContainsFunc(texts, lacks) {
			events = append(events, e)
		}
	}
	return events
}

// onRenewal tells of renewals alone.
func onRenewal(tell func(ExtendEnd)) Option {
	return WithHooks(Hooks{ExtendEnd: func(_ context.Context, e ExtendEnd) {
		if e.Renewal {
			tell(e)
		}
	}})
}

// A sleeper is a machine that sleeps by an assignment.
type sleeper struct{ slept atomic.Int64 }

func (s *sleeper) sleep(d time.Duration) { s.slept.Add(int64(d)) }

// option gives a Locker the machine's clock.
func (s *sleeper) option() Option {
	clock := clockdrift.NewWith(func() time.Duration { return time.Duration(s.slept.Load()) })
	return option(func(o *lockerOptions) { o.clock = clock })
}

// outstanding counts the clean-ups that wait for their next try.
func outstanding(l *Locker) int {
	return l.board.Outstanding()
}

// empty fails the test if a Locker that is idle still has something of what it did.
func empty(t *testing.T, l *Locker) {
	t.Helper()
	synctest.Wait() // nothing of what is read here changes any more
	report := func(what string, count, most int) {
		t.Helper()
		if count > most {
			t.Errorf("an idle Locker has %d %s, want at most %d", count, what, most)
		}
	}
	keys := l.board.Keys.Left()
	report("clean-ups", outstanding(l)+keys.Awaited, 0)
	report("locks", len(l.holds.locks), 0)
	l.holds.mu.Lock()
	looks := l.holds.sleep.on
	l.holds.mu.Unlock()
	if looks {
		t.Error("an idle Locker looks after locks once a second")
	}
	report("keys", keys.States+keys.Flights, 0)
	report("states to use again", keys.Spare, len(dayKeys)+dayCallers+2)
	report("lines of waiters", l.lines.Len(), 0)
	if l.teller.busy || l.teller.queue != nil {
		t.Errorf("an idle Locker's hooks are told something (%t), or its queue for them is kept (%d)", l.teller.busy, cap(l.teller.queue))
	}
	inside, waiting := l.room.Len()
	report("tries", len(l.site.Tries)+inside+waiting, 0)
	report("spent tokens", l.board.Spent.Len(), quorum.FirstSweep)
	for _, n := range l.board.Nodes {
		left := n.Left()
		report("waiters' channels", left.Channels, 0)
		if left.Listens {
			t.Errorf("an idle Locker listens at %s", n.Name())
		}
		report("events", left.Events, 0)
		report("requests", left.Requests, 0)
		if left.Waits {
			t.Errorf("an idle Locker waits for an answer of %s", n.Name())
		}
		report("senders", left.Senders, node.MaxWindow)
	}
}
