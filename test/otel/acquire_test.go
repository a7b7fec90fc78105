package otel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// wait begins an acquire that waits, and returns what gives its lock.
func (l *lab) wait(key string, options ...redlock.AcquireOption) func() *redlock.Lock {
	had := make(chan *redlock.Lock, 1)
	go func() {
		lock, err := l.locker.Acquire(l.t.Context(), key, options...)
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

func TestEachOutcomeAndPathOfAnAcquireIsMeasured(t *testing.T) {
	for _, tt := range []struct {
		outcome, path string
		tries         float64 // of all acquires with the outcome; -1: any number
		settings      settings
		do            func(l *lab)
	}{
		{"acquired", "direct", 1, settings{}, func(l *lab) {
			release(l.t, l.acquire("k"))
		}},
		{"acquired", "handed_over", -1, settings{}, func(l *lab) {
			first := l.acquire("held")
			second := l.wait("held")
			release(l.t, first)
			release(l.t, second())
		}},
		{"acquired", "woken", -1, settings{}, func(l *lab) {
			first := must(l.stranger().Acquire(l.t.Context(), "k"))(l.t)
			second := l.wait("k")
			time.Sleep(soon)
			release(l.t, first)
			release(l.t, second())
		}},
		{"acquired", "polled", -1, settings{}, func(l *lab) {
			l.nodes.Take("k", time.Second)
			release(l.t, l.wait("k")())
		}},
		{"acquired", "converted", -1, settings{}, func(l *lab) {
			release(l.t, must(l.acquire("k").Downgrade(l.t.Context()))(l.t))
		}},
		{"held", "direct", 1, settings{}, func(l *lab) {
			l.nodes.Take("k", time.Minute)
			_, err := l.locker.TryAcquire(l.t.Context(), "k")
			wantErr(l.t, err, redlock.ErrTaken)
		}},
		{"held", "polled", -1, settings{}, func(l *lab) {
			l.nodes.Take("k", time.Minute)
			_, err := l.locker.Acquire(l.t.Context(), "k", redlock.WithMaxWait(20*time.Second))
			wantErr(l.t, err, redlock.ErrTaken)
		}},
		{"no_quorum", "direct", 1, settings{}, func(l *lab) {
			l.nodes[1:].Stop()
			_, err := l.locker.TryAcquire(l.t.Context(), "k")
			wantErr(l.t, err, redlock.ErrNoQuorum)
		}},
		{"no_quorum", "polled", -1, settings{}, func(l *lab) { // though it was the context that ended
			l.nodes[1:].Stop()
			ctx, cancel := context.WithTimeout(l.t.Context(), time.Second)
			defer cancel()
			_, err := l.locker.Acquire(ctx, "k", redlock.WithMaxOutage(time.Minute))
			wantErr(l.t, err, context.DeadlineExceeded)
		}},
		{"expired", "direct", 1, settings{locker: []redlock.Option{redlock.WithTTL(100 * time.Millisecond), redlock.WithNodeTimeout(99 * time.Millisecond)}}, func(l *lab) {
			for _, n := range l.nodes {
				n.SlowDown(98 * time.Millisecond)
			}
			_, err := l.locker.TryAcquire(l.t.Context(), "k")
			wantErr(l.t, err, redlock.ErrExpired)
		}},
		{"no_fence", "direct", 1, settings{locker: []redlock.Option{redlock.WithFences()}}, func(l *lab) {
			last := []driver.Command{{Args: []any{"ZADD", protocol.FenceSet("k"), "9007199254740990", "k"}, FirstKey: 1, Keys: 1}}
			for _, n := range l.nodes.Drivers() { // their counters have come to the end
				must(n.Driver.Do(l.t.Context(), last))(l.t)
				_ = n.Driver.(io.Closer).Close()
			}
			_, err := l.locker.TryAcquire(l.t.Context(), "k")
			wantErr(l.t, err, redlock.ErrFence)
		}},
		{"canceled", "direct", 1, settings{}, func(l *lab) {
			l.nodes.Hang()
			ctx, cancel := context.WithTimeout(l.t.Context(), time.Millisecond)
			defer cancel()
			_, err := l.locker.TryAcquire(ctx, "k")
			wantErr(l.t, err, context.DeadlineExceeded)
			l.nodes.Resume()
		}},
		{"closed", "direct", 1, settings{}, func(l *lab) {
			_ = l.locker.Close()
			_, err := l.locker.TryAcquire(l.t.Context(), "k")
			wantErr(l.t, err, redlock.ErrClosed)
		}},
		{"invalid", "direct", 0, settings{}, func(l *lab) {
			_, err := l.locker.TryAcquire(l.t.Context(), "k", redlock.WithTTL(0))
			wantErr(l.t, err, redlock.ErrOption)
		}},
		{"invalid", "direct", -1, settings{}, func(l *lab) {
			two, three := must(l.locker.Semaphore("gpus", 2))(l.t), must(l.locker.Semaphore("gpus", 3))(l.t)
			must(two.TryAcquire(l.t.Context()))(l.t)
			_, err := three.TryAcquire(l.t.Context())
			wantErr(l.t, err, redlock.ErrPermits)
		}},
		{"deadlock", "direct", 0, settings{}, func(l *lab) {
			lock := l.acquire("k")
			_, err := l.locker.TryAcquire(lock.Context(), "k")
			wantErr(l.t, err, redlock.ErrDeadlock)
		}},
		{"released", "converted", -1, settings{}, func(l *lab) {
			lock := l.acquire("k")
			release(l.t, lock)
			_, err := lock.Downgrade(l.t.Context())
			wantErr(l.t, err, redlock.ErrReleased)
		}},
		{"lost", "converted", -1, settings{}, func(l *lab) {
			lock := l.acquire("k", redlock.WithoutRenewal())
			time.Sleep(time.Minute)
			_, err := lock.Downgrade(l.t.Context())
			wantErr(l.t, err, redlock.ErrLost)
		}},
	} {
		t.Run(tt.outcome+" "+tt.path, func(t *testing.T) {
			inBubble(t, tt.settings, func(t *testing.T, l *lab) {
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

// What embedded nodes do not bring about is told by hand.
func TestOutcomesOfErrorsThatAreRare(t *testing.T) {
	votes := func(answers ...string) []redlock.Vote {
		all := make([]redlock.Vote, len(answers))
		for i, a := range answers {
			all[i] = redlock.Vote{Node: fmt.Sprint("node", i), Answer: a}
		}
		return all
	}
	quorum := func(reason error, answers ...string) error {
		return &redlock.QuorumError{Op: "acquire", Key: "k", Need: 2, Votes: votes(answers...), Reason: reason}
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{quorum(redlock.ErrContended, "granted", "taken", "failed"), "contended"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrNoQuorum, "pending", "pending", "failed"), context.Canceled), "canceled"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrNoQuorum, "pending", "failed", "failed"), context.Canceled), "no_quorum"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrNoQuorum, "pending", "pending", "failed"), redlock.ErrClosed), "closed"},
		{fmt.Errorf("%w: %w", quorum(redlock.ErrTaken, "taken", "taken", "failed"), context.DeadlineExceeded), "canceled"},
		{quorum(redlock.ErrFence, "outbid", "outbid", "granted"), "no_fence"},
		{&redlock.DeadlockError{}, "deadlock"},
		{fmt.Errorf("redlock: acquire: %w", redlock.ErrBusy), "busy"},
		{errors.New("what nobody knows"), "_other"},
	} {
		inBubble(t, settings{}, func(t *testing.T, l *lab) {
			hooks := l.telemetry.Hooks()
			call := redlock.AcquireStart{Key: "k", Kind: "exclusive"}
			hooks.AcquireEnd(hooks.AcquireStart(t.Context(), call), redlock.AcquireEnd{AcquireStart: call, Err: tt.err})
			l.want("redlock.acquire.duration", "redlock.outcome="+tt.want+",redlock.path=direct", 1)
		})
	}
}

func TestWaitsAreMeasuredInSeconds(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		l.nodes.Take("k", 8*time.Second)
		release(t, l.wait("k", redlock.WithMaxWait(time.Minute))())
		if p := l.want("redlock.acquire.duration", "redlock.outcome=acquired,redlock.path=polled", 1); p.Value < 8 || p.Value > 14 {
			t.Errorf("the wait for a lease of 8s took %vs", p.Value)
		}
	})
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
