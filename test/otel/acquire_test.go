package otel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// wait begins an acquire that waits, and returns what gives its lock.
func (l *lab) wait(key string) func() *redlock.Lock {
	had := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := l.locker.Acquire(l.t.Context(), key)
		if err != nil {
			l.t.Errorf("Acquire = %v", err)
		}
		had <- lock
	}()
	synctest.Wait()
	return func() *redlock.Lock { return <-had }
}

// wantErr fails the test if an error is another one.
func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, want %v", err, want)
	}
}

func TestEachPathOfAnAcquireIsMeasured(t *testing.T) {
	for _, tt := range []struct {
		outcome, path string
		tries         float64 // of all acquires with the outcome; -1: any number
		do            func(l *lab)
	}{
		{"acquired", "direct", 1, func(l *lab) {
			release(l.t, l.acquire("k"))
		}},
		{"acquired", "handed_over", -1, func(l *lab) {
			first := l.acquire("held")
			second := l.wait("held")
			release(l.t, first)
			release(l.t, second())
			l.want("redlock.release.duration", "redlock.handed_over=true,redlock.outcome=released", 1)
		}},
		{"acquired", "woken", -1, func(l *lab) {
			first := must(l.open().Acquire(l.t.Context(), "k"))(l.t)
			second := l.wait("k")
			time.Sleep(soon)
			release(l.t, first)
			release(l.t, second())
		}},
		{"acquired", "polled", -1, func(l *lab) {
			l.nodes.Take("k", time.Second)
			release(l.t, l.wait("k")())
		}},
		{"acquired", "converted", -1, func(l *lab) {
			release(l.t, must(l.acquire("k").Downgrade(l.t.Context()))(l.t))
		}},
		{"no_quorum", "polled", -1, func(l *lab) { // though it was the context that ended
			l.nodes[1:].Stop()
			ctx, cancel := context.WithTimeout(l.t.Context(), time.Second)
			defer cancel()
			_, err := l.locker.Acquire(ctx, "k", redlock.WithMaxOutage(time.Minute))
			wantErr(l.t, err, context.DeadlineExceeded)
		}},
		{"canceled", "direct", 1, func(l *lab) {
			l.nodes.Hang()
			ctx, cancel := context.WithTimeout(l.t.Context(), time.Millisecond)
			defer cancel()
			_, err := l.locker.TryAcquire(ctx, "k")
			wantErr(l.t, err, context.DeadlineExceeded)
			l.nodes.Resume()
		}},
	} {
		t.Run(tt.outcome+" "+tt.path, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, l *lab) {
				began := time.Now()
				tt.do(l)
				p := l.want("redlock.acquire.duration", "redlock.outcome="+tt.outcome+",redlock.path="+tt.path, 1)
				if most := time.Since(began).Seconds(); p.Value < 0 || p.Value > most {
					t.Errorf("the acquire took %vs, want at most the %vs of the test", p.Value, most)
				}
				tries, ok := l.find("redlock.acquire.tries", "redlock.outcome="+tt.outcome)
				if !ok || tt.tries >= 0 && tries.Value != tt.tries {
					t.Errorf("the tries are %v, want %v in all", tries, tt.tries)
				}
			})
		})
	}
}

// Of every call, told by hand: which error it returns, and when, is for the tests of redlock.
func TestTheOutcomeOfACallIsItsErrorInAWord(t *testing.T) {
	quorum := func(reason error, answers ...string) error {
		var votes []redlock.Vote
		for i, answer := range answers {
			v := redlock.Vote{Node: fmt.Sprint("node", i), Answer: answer}
			if answer == "failed" {
				v.Err = reason
			}
			votes = append(votes, v)
		}
		return &redlock.QuorumError{Op: "acquire", Key: "k", Need: 2, Votes: votes, Reason: reason}
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{quorum(redlock.ErrTaken, "taken", "taken", "failed"), "held"},
		{quorum(redlock.ErrNoQuorum, "granted", "failed", "failed"), "no_quorum"},
		{quorum(redlock.ErrContended, "granted", "taken", "failed"), "contended"},
		{quorum(redlock.ErrExpired, "granted", "granted", "granted"), "expired"},
		{quorum(redlock.ErrFence, "outbid", "outbid", "granted"), "no_fence"},
		{quorum(redlock.ErrFence, "failed", "failed", "failed"), "no_fence"},
		{quorum(redlock.ErrPermits, "failed", "failed", "granted"), "invalid"},
		{quorum(redlock.ErrLost, "absent", "absent", "granted"), "lost"},
		{redlock.ErrLost, "lost"},
		{redlock.ErrReleased, "released"},
		{&redlock.OptionError{Option: "TTL", Reason: "0s is too short"}, "invalid"},
		{&redlock.DeadlockError{}, "deadlock"},
		{fmt.Errorf("redlock: acquire: %w", redlock.ErrBusy), "busy"},
		{fmt.Errorf("redlock: acquire: %w", redlock.ErrClosed), "closed"},
		{fmt.Errorf("redlock: acquire: %w", context.Canceled), "canceled"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrNoQuorum, "pending", "pending", "failed"), context.Canceled), "canceled"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrNoQuorum, "pending", "failed", "failed"), context.Canceled), "no_quorum"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrNoQuorum, "pending", "pending", "failed"), redlock.ErrClosed), "closed"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrTaken, "taken", "taken", "failed"), context.DeadlineExceeded), "canceled"},
		{errors.New("what nobody knows"), "_other"},
	} {
		inBubble(t, settings{}, func(t *testing.T, l *lab) {
			hooks := l.telemetry.Hooks()
			call := redlock.AcquireStart{Key: "k", Kind: "exclusive"}
			ctx := hooks.AcquireStart(t.Context(), call)
			hooks.AcquireEnd(ctx, redlock.AcquireEnd{AcquireStart: call, Err: tt.err, Waited: 8 * time.Second})
			hooks.ExtendEnd(ctx, redlock.ExtendEnd{Key: "k", Err: tt.err, Need: 2, Granted: 3, Latency: 8 * time.Second})
			hooks.ReleaseEnd(ctx, redlock.ReleaseEnd{Key: "k", Err: tt.err, Latency: 8 * time.Second})
			for name, attributes := range map[string]string{
				"redlock.acquire.duration": "redlock.outcome=" + tt.want + ",redlock.path=direct",
				"redlock.extend.duration":  "redlock.outcome=" + tt.want + ",redlock.renewal=false",
				"redlock.release.duration": "redlock.handed_over=false,redlock.outcome=" + tt.want,
			} {
				if p := l.want(name, attributes, 1); p.Value != 8 {
					t.Errorf("%s of 8s is %vs", name, p.Value)
				}
			}
			if spare := l.points("redlock.renewal.spare_votes"); len(spare) > 0 {
				t.Errorf("an Extend is no renewal, and has spare votes: %v", spare)
			}
		})
	}
}

func TestKeysHaveNamesOnlyWhereAFunctionGivesThem(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		release(t, l.acquire("orders:42"))
		l.want("redlock.acquire.duration", "redlock.outcome=acquired,redlock.path=direct", 1)
	})
	short := otelredlock.WithKeyName(func(key string) string { return key[:3] })
	inBubble(t, settings{telemetry: []otelredlock.Option{short}}, func(t *testing.T, l *lab) {
		lock := l.acquire("orders:42", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		time.Sleep(2 * time.Second)
		wantErr(t, lock.Release(), redlock.ErrLost)
		release(t, must(l.locker.AcquireAll(t.Context(), []string{"orders:1", "orders:2", "bills:3"}))(t))
		for _, names := range []string{"ord", "bil\\,ord"} {
			l.want("redlock.acquire.duration", "redlock.key.name="+names+",redlock.outcome=acquired,redlock.path=direct", 1)
		}
		l.want("redlock.hold.duration", "redlock.end=lost,redlock.key.name=ord", 1)
		l.wantValue("redlock.lock.lost", "error.type=expired,redlock.key.name=ord", 1)
		for name, m := range l.collect() {
			for _, p := range pointsOf(m) {
				if name == "redlock.acquire.tries" && p.Attributes != "redlock.outcome=acquired" {
					t.Errorf("%s has the attributes %s, want no key", name, p.Attributes)
				}
			}
		}
	})
}

func TestTooManyNamesBecomeOneAndOneThatPanicsBreaksNoLock(t *testing.T) {
	identity := otelredlock.WithKeyName(func(key string) string {
		if key == "bad" {
			panic("as functions of users do")
		}
		return key
	})
	inBubble(t, settings{telemetry: []otelredlock.Option{identity}}, func(t *testing.T, l *lab) {
		for i := range 250 {
			release(t, l.acquire(fmt.Sprint("key", i)))
		}
		release(t, l.acquire("key7")) // which has a name
		release(t, l.acquire("bad"))
		release(t, must(l.locker.AcquireAll(t.Context(), []string{"bad", "worse"}))(t))
		all := l.points("redlock.acquire.duration")
		if len(all) != 201 {
			t.Errorf("there are %d time series, want 200 and one for all others", len(all))
		}
		l.want("redlock.acquire.duration", "redlock.key.name=_other,redlock.outcome=acquired,redlock.path=direct", 50+2)
		l.want("redlock.acquire.duration", "redlock.key.name=key7,redlock.outcome=acquired,redlock.path=direct", 2)
	})
}
