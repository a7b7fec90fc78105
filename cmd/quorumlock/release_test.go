package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// A site is servers with locks on them.
type site struct {
	*ward
	urls    []string
	locker  *redlock.Locker // of holders
	waiter  *redlock.Locker // of those who wait, as in another process
	timeout string          // of nodes, as the command's environment has it; "": the usual one
}

const prefix = "orders:"

// newSite starts servers, and makes Lockers whose leases are of so long.
func newSite(t *testing.T, size int, ttl time.Duration) *site {
	t.Helper()
	s := siteOf(newMasters(t, size))
	s.locker, s.waiter = s.newLocker(ttl), s.newLocker(ttl)
	return s
}

func siteOf(w *ward) *site { return &site{ward: w, urls: strings.Split(w.nodes, ",")} }

func (s *site) newLocker(ttl time.Duration, options ...redlock.Option) *redlock.Locker {
	s.t.Helper()
	locker, err := redlock.New(s.open(), append(options, redlock.WithKeyPrefix(prefix), redlock.WithTTL(ttl), redlock.WithNodeTimeout(ttl/2))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = locker.Close() })
	return locker
}

// announced is how many clients of the first node listen for releases of a key.
func (s *site) announced(key string) int64 {
	s.t.Helper()
	return s.servers[0].Ask("PUBSUB", "NUMSUB", "ql:free:"+prefix+key).Elems[1].Int
}

func (s *site) open() []driver.Node {
	s.t.Helper()
	nodes, err := goredis.Open(s.urls...)
	if err != nil {
		s.t.Fatal(err)
	}
	return nodes
}

// ctx ends a test that hangs.
func (s *site) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), patient.Guard)
	s.t.Cleanup(cancel)
	return ctx
}

// env is the environment of the command.
func (s *site) env() []string {
	return []string{"QUORUMLOCK_NODES=" + strings.Join(s.urls, ","), "QUORUMLOCK_PREFIX=" + prefix}
}

// release runs the command.
func (s *site) release(args ...string) result {
	s.t.Helper()
	return run(s.t, s.env(), append([]string{"release"}, args...)...)
}

// released runs it, and reads its JSON.
func (s *site) released(args ...string) (r releaseReport) {
	s.t.Helper()
	got := s.release(append(args, "--force", "-o", "json")...)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || got.code != exitOK {
		s.t.Fatalf("release %q = %d, %q, %q: %v", args, got.code, got.out, got.talk, err)
	}
	return r
}

// must ends the test if there is an error.
func must[R any](got R, err error) func(*testing.T) R {
	return func(t *testing.T) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// reaching returns the nodes as somebody sees them who reaches only so many.
func (s *site) reaching(n int) []driver.Node {
	s.t.Helper()
	nodes := s.open()
	s.t.Cleanup(func() { closeNodes(nodes) })
	seen := slices.Clone(nodes)
	for i := n; i < len(seen); i++ {
		seen[i].Driver = nobody{}
	}
	return seen
}

// at returns what the servers have at a key.
func (s *site) at(key string) (values []string) {
	s.t.Helper()
	for _, server := range s.servers {
		values = append(values, do(s.t, server, "GET", key))
	}
	return values
}

// everywhere waits until all servers have a key: an acquire returns when a quorum has.
func (s *site) everywhere(key string) {
	s.t.Helper()
	for slices.Contains(s.at(key), "") {
		if s.t.Context().Err() != nil {
			return
		}
	}
}

// overBefore waits until somebody has the lock, who must find that the holder's is over.
func overBefore(t *testing.T, holder interface{ Valid() bool }, got <-chan error) {
	t.Helper()
	if err := <-got; err != nil {
		t.Errorf("who waits for a revoked key gets %v, want the key", err)
	}
	if holder.Valid() {
		t.Error("the holder of a revoked key still has it when another one gets it")
	}
}

// wait acquires the key in the background.
func wait[L any](acquire func() (L, error), holder interface{ Valid() bool }) <-chan error {
	got := make(chan error, 1)
	go func() {
		_, err := acquire()
		if err == nil && holder.Valid() {
			err = errors.New("two holders")
		}
		got <- err
	}()
	return got
}

const shortLease = 4 * time.Second // which a busy machine renews in time

func TestTheHolderOfARevokedKeyIsOverByItsDeadlineAndAWaiterIsServedThenAndNotBefore(t *testing.T) {
	t.Parallel()
	for _, reach := range []int{5, 3} {
		t.Run(fmt.Sprintf("%d of 5", reach), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 5, shortLease)
			ctx := s.ctx()
			held := must(s.locker.Acquire(ctx, "42", redlock.WithOwner("pod-7")))(t)
			s.everywhere(prefix + "42")
			got := wait(func() (*redlock.Lock, error) { return s.waiter.Acquire(ctx, "42") }, held)
			nodes := s.reaching(reach)
			seen := must(inspect.Look(ctx, nodes, "42", -1, inspect.Settings{Prefix: prefix}))(t)
			if seen.Owner != "pod-7" || seen.At != reach {
				t.Errorf("who has it: %v at %d nodes, want pod-7 at %d", seen, seen.At, reach)
			}
			done, err := inspect.Revoke(ctx, nodes, seen, inspect.RevokeOptions{Settings: inspect.Settings{Prefix: prefix}, Reason: "a test"})
			if err != nil || !done.Final || done.Took != reach || done.Need != 3 || done.Holder != "pod-7" {
				t.Errorf("Revoke = %+v, %v, want it to be final with %d tombstones", done, err, reach)
			}
			<-held.Context().Done()
			if cause := context.Cause(held.Context()); !errors.Is(cause, redlock.ErrLost) {
				t.Errorf("the holder's context ends with %v, want that the lock is lost", cause)
			}
			overBefore(t, held, got)
		})
	}
}

// The holder goes on after a revocation at too few nodes, which says so, and is over after the
// rest.
func TestARevocationThatTooFewNodesTookSaysSoAndIsCompletedByAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, 5, shortLease)
	ctx := s.ctx()
	renewals := make(chan redlock.ExtendEnd, 1000)
	locker := s.newLocker(shortLease, redlock.WithHooks(redlock.Hooks{ExtendEnd: func(_ context.Context, e redlock.ExtendEnd) { renewals <- e }}))
	held := must(locker.Acquire(ctx, "42"))(t)
	s.everywhere(prefix + "42")
	all := s.reaching(5)
	settings := inspect.Settings{Prefix: prefix}
	seen := must(inspect.Look(ctx, all, "42", -1, settings))(t)
	done, err := inspect.Revoke(ctx, s.reaching(2), seen, inspect.RevokeOptions{Settings: settings})
	if !errors.Is(err, redlock.ErrNoQuorum) || !errors.Is(err, driver.ErrNotSent) || done.Final || done.Took != 2 {
		t.Errorf("Revoke at 2 of 5 nodes = %+v, %v, want that the holder may go on, and why", done, err)
	}
	for r := range renewals { // tombstones end: the holder gets all nodes back
		if until := held.Until(); r.Err == nil && until.After(done.Time.Add(2*shortLease)) {
			break
		}
	}
	if !held.Valid() {
		t.Error("the holder has lost its key by tombstones at 2 of 5 nodes")
	}
	if done, err = inspect.Revoke(ctx, all, seen, inspect.RevokeOptions{Settings: settings}); err != nil || !done.Final {
		t.Errorf("another Revoke of the same = %+v, %v, want it to be final", done, err)
	}
	<-held.Context().Done()
}

func TestNoVariableTakesAKey(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	held := must(s.locker.Acquire(s.ctx(), "42"))(t)
	s.everywhere(prefix + "42")
	env := append(s.env(), "QUORUMLOCK_FORCE=true", "QUORUMLOCK_NOW=true", "QUORUMLOCK_YES=true")
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"release", "42"}, exitUsage, "nothing was done: --force takes"},
		{[]string{"release", "42", "--force", "--now"}, exitUsage, "--yes"},
		{[]string{"release", "42", "--force"}, exitOK, `outcome="final"`}, // and not at once
	} {
		if got := run(t, env, tt.args...); got.code != tt.code || !strings.Contains(got.talk, tt.says) {
			t.Errorf("%q with variables = %d, %q; want %d and %q", tt.args, got.code, got.talk, tt.code, tt.says)
		}
		if value := s.at(prefix + "42")[0]; (value == held.Token()) == (tt.code == exitOK) || value == "" {
			t.Errorf("%q with variables leaves %.11q at the key, want the token while nothing is done, and then a tombstone", tt.args, value)
		}
	}
}

func TestANewHolderIsNeverHit(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, 20*time.Second)
	ctx := s.ctx()
	settings := inspect.Settings{Prefix: prefix}
	nodes := s.reaching(3)
	old := must(s.locker.Acquire(ctx, "42"))(t)
	seen := must(inspect.Look(ctx, nodes, "42", -1, settings))(t)
	if err := old.Release(); err != nil {
		t.Fatal(err)
	}
	for _, now := range []bool{false, true} {
		next := must(s.waiter.Acquire(ctx, "42"))(t)
		s.everywhere(prefix + "42")
		done, err := inspect.Revoke(ctx, nodes, seen, inspect.RevokeOptions{Settings: settings, Now: now})
		if !errors.Is(err, redlock.ErrLost) || done.Took != 0 {
			t.Errorf("Revoke of a holder that has gone = %+v, %v, want ErrLost and nothing done", done, err)
		}
		if err := next.Extend(ctx, 20*time.Second); err != nil {
			t.Errorf("the next holder was hit: %v", err)
		}
		for _, value := range s.at(prefix + "42") {
			if value != next.Token() {
				t.Errorf("a node has %.14s… in place of the next holder's token", value)
			}
		}
		if err := next.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadersLoseARevokedKeyTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, shortLease)
	ctx := s.ctx()
	first := must(s.locker.AcquireShared(ctx, "42"))(t)
	second := must(s.waiter.AcquireShared(ctx, "42"))(t)
	s.everywhere(prefix + "42")
	got := wait(func() (*redlock.Lock, error) { return s.waiter.Acquire(ctx, "42") }, first)
	if r := s.released("42"); !r.Final || r.Took != 3 {
		t.Errorf("release = %+v, want it to be final", r)
	}
	<-first.Context().Done()
	<-second.Context().Done()
	overBefore(t, first, got)
	if second.Valid() {
		t.Error("the second reader still has the key when a writer gets it")
	}
}

func TestAPermitIsRevokedAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, shortLease)
	ctx := s.ctx()
	pool := must(s.locker.Semaphore("gpus", 2))(t)
	others := must(s.waiter.Semaphore("gpus", 2))(t)
	one := must(pool.Acquire(ctx))(t)
	two := must(pool.Acquire(ctx))(t)
	s.everywhere("ql:slot:{" + prefix + "gpus}" + fmt.Sprint(one.Slots()[0]))
	got := make(chan *redlock.Lock, 1)
	go func() {
		next, err := others.Acquire(ctx)
		if err != nil || one.Valid() {
			t.Errorf("who waits for a permit: %v; the revoked one still has it: %v", err, one.Valid())
		}
		got <- next
	}()
	if r := s.released("gpus", "--slot", fmt.Sprint(one.Slots()[0])); !r.Final {
		t.Errorf("release = %+v, want it to be final", r)
	}
	if next := <-got; next == nil || next.Slots()[0] != one.Slots()[0] || !two.Valid() {
		t.Errorf("behind it the slot is with %v, and the other permit is valid: %v", next, two.Valid())
	}
}

func TestAKeyOfASetTakesTheSetWithIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, shortLease)
	ctx := s.ctx()
	keys := []string{"a", "b", "c"}
	held := must(s.locker.AcquireAll(ctx, keys))(t)
	s.everywhere(prefix + "b")
	got := wait(func() (*redlock.Lock, error) { return s.waiter.AcquireAll(ctx, keys) }, held)
	if r := s.released("b"); !r.Final {
		t.Errorf("release = %+v, want it to be final", r)
	}
	<-held.Context().Done()
	overBefore(t, held, got)
}

func TestNowFreesTheKeyAtOnceAndWantsToBeMeant(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	ctx := s.ctx()
	held := must(s.locker.Acquire(ctx, "42"))(t)
	s.everywhere(prefix + "42")
	wants(t, "release --now without --yes", s.release("42", "--force", "--now"), exitUsage, "2> --yes")
	if values := s.at(prefix + "42"); values[0] != held.Token() {
		t.Errorf("what was refused has changed the key: %.11s…", values[0])
	}
	got := make(chan error, 1)
	go func() {
		_, err := s.waiter.Acquire(ctx, "42")
		got <- err
	}()
	r := s.released("42", "--now", "--yes")
	if r.Took != 3 || r.Final || r.Overlap < 30 || r.Overlap > 61 {
		t.Errorf("release --now = %+v, want three nodes free, and two holders for up to a minute", r)
	}
	if err := <-got; err != nil {
		t.Errorf("who waits for a key that was freed at once gets %v, want the key", err)
	}
}

func TestReleaseSaysWhoHasTheKeyAndDoesNothingWithoutForce(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	wants(t, "release of a free key", s.release("42", "--force"), exitOK, "2> nobody has it")
	held := must(s.locker.Acquire(s.ctx(), "42", redlock.WithOwner("pod-7")))(t)
	s.everywhere(prefix + "42")
	wants(t, "release without --force", s.release("42"), exitUsage, "2> pod-7 (", "2> --force takes")
	if values := s.at(prefix + "42"); values[0] != held.Token() {
		t.Errorf("without --force the key has become %.11s…", values[0])
	}
	got := s.release("42", "--force", "--reason", "it hangs")
	wants(t, "release --force", got, exitOK, "Taken at 3 of 3 nodes", "2> audit: ", `2> reason="it hangs"`)
	if strings.Contains(got.out+got.talk, held.Token()[:20]) {
		t.Errorf("the token is shown: %q %q", got.out, got.talk)
	}
	if values := s.at(prefix + "42"); !strings.HasPrefix(values[0], "ql:revoked:") || !strings.HasSuffix(values[0], ":it hangs") {
		t.Errorf("a node has %q, want a tombstone with the reason", values[0])
	}
	wants(t, "a second release --force", s.release("42", "--force"), exitOK, "2> it was taken from its holder before: it hangs", "Taken")
}

func TestWhatReleasePrintsIsAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	held := must(s.locker.Acquire(s.ctx(), "42", redlock.WithOwner("pod-7")))(t)
	s.everywhere(prefix + "42")
	for _, args := range [][]string{{"free"}, {"42"}, {"42", "--now", "--yes"}} {
		got := s.release(append(args, "--force", "-o", "json")...)
		if faults := conforms(t, "release.v1.json", got.out); faults != nil || got.code != exitOK {
			t.Errorf("release %q = %d, %q: %q", args, got.code, got.out, faults)
		}
		if strings.Contains(got.out, held.Token()[:20]) {
			t.Errorf("the token is shown: %q", got.out)
		}
	}
	s.servers[0].Kill()
	s.servers[1].Kill()
	wants(t, "release with one of three nodes", s.release("42", "--force"), exitUnavailable)
}

func TestALockOfAnotherLibraryWithoutAnExpiryIsFreeAfterTheLongestLease(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	s.all("SET", prefix+"42", "1")
	wants(t, "release", s.release("42", "--force", "--longest-ttl", "2m"), exitOK,
		"2> another library's lock has it at 3 of 3 nodes, and nobody can tell until when", "It had no expiry")
	for _, server := range s.servers {
		if left := ask(t, server, "PTTL", prefix+"42").Int; left <= 60_000 || left > 120_010 {
			t.Errorf("the key is there for another %d ms, want up to two minutes", left)
		}
	}
}

func TestAUserMayReleaseWithTheRightsOfTheTableAndIsToldThemWithout(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	ctx := s.ctx()
	must(s.locker.Acquire(ctx, "42", redlock.WithoutRenewal()))(t)
	must(s.locker.AcquireShared(ctx, "43", redlock.WithoutRenewal()))(t)
	must(must(s.locker.Semaphore("44", 1))(t).Acquire(ctx, redlock.WithoutRenewal()))(t)
	for _, key := range []string{prefix + "42", prefix + "43", "ql:slot:{" + prefix + "44}0"} {
		s.everywhere(key)
	}
	rules := acl.Rules(prefix, acl.Revoke)
	admins := s.urls
	as := func(rules ...string) {
		s.all(slices.Concat([]string{"ACL", "SETUSER", "operator", "reset", "on", ">secret"}, rules)...)
		s.urls = strings.Split(strings.ReplaceAll(strings.Join(admins, ","), "redis://", "redis://operator:secret@"), ",")
	}
	defer func() { s.urls = admins }()
	as(slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return strings.HasPrefix(r, "+eval") })...)
	if got := s.release("42", "--force"); got.code != exitForbidden || !strings.Contains(got.talk, "allow "+strings.Join(rules, " ")) || strings.Contains(got.talk, "secret") {
		t.Errorf("release by a user who may run no scripts = %+v, want code %d and what to allow", got, exitForbidden)
	}
	as(rules...)
	for _, args := range [][]string{{"42"}, {"43"}, {"44", "--slot", "0"}} {
		if r := s.released(args...); !r.Final {
			t.Errorf("release %q with %q = %+v, want it to be final", args, rules, r)
		}
		if r := s.released(append(args, "--now", "--yes")...); r.Took != 3 {
			t.Errorf("release %q --now with %q = %+v, want all nodes free", args, rules, r)
		}
	}
}
