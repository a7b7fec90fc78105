package otel

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// export returns all that was told, as text.
func (l *lab) export() string {
	l.t.Helper()
	var all strings.Builder
	for name, m := range l.collect() {
		fmt.Fprintf(&all, "%s %+v\n", name, m)
	}
	for _, s := range l.spans.GetSpans() {
		fmt.Fprintf(&all, "%s %+v %+v %+v %s\n", s.Name, s.Attributes, s.Events, s.Links, s.Status.Description)
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				all.WriteString(kv.Value.String() + "\n")
			}
		}
		for _, kv := range s.Attributes {
			all.WriteString(string(kv.Key) + "=" + kv.Value.String() + "\n")
		}
	}
	for name, m := range l.collect() {
		for _, p := range pointsOf(m) {
			text, err := json.Marshal(p)
			if err != nil {
				l.t.Fatal(err)
			}
			fmt.Fprintf(&all, "%s %s %s\n", name, text, p.Attributes)
		}
	}
	return all.String()
}

// everything is told that can be.
func everything() []otelredlock.Option {
	return []otelredlock.Option{
		otelredlock.WithHoldSpans(), otelredlock.WithBatchSpans(), otelredlock.WithClientMetrics(),
		otelredlock.WithKeyName(func(key string) string { return key }),
	}
}

func TestNoTokenIsExported(t *testing.T) {
	const own = "a-token-of-my-own-8f3a61"
	inBubble(t, settings{telemetry: everything(), locker: []redlock.Option{redlock.WithFences()}}, func(t *testing.T, l *lab) {
		tokens := []string{own}
		keep := func(lock *redlock.Lock) *redlock.Lock {
			tokens = append(tokens, lock.Token())
			return lock
		}
		release(t, keep(l.acquire("k")))
		release(t, keep(l.acquire("own", redlock.WithToken(own))))
		_, err := l.locker.TryAcquire(t.Context(), "own", redlock.WithToken(own))
		wantErr(t, err, redlock.ErrReleased)
		first := keep(l.acquire("held", redlock.WithOwner("me")))
		_, err = l.locker.TryAcquire(t.Context(), "held")
		wantErr(t, err, redlock.ErrTaken)
		next := l.wait("held")
		release(t, first)
		lost := keep(next())
		keep(l.acquire("lost", redlock.WithTTL(2*time.Second)))
		wantErr(t, lost.Extend(t.Context(), 0), redlock.ErrOption)
		for _, n := range l.nodes[1:] {
			n.Fail("ERR unknown command 'EVAL', with args beginning with: '"+own+"'", "EVAL", "EVALSHA", "SET")
		}
		time.Sleep(10 * time.Second)
		_ = lost.Release()
		_, err = l.locker.TryAcquire(t.Context(), "k", redlock.WithToken(own))
		wantErr(t, err, redlock.ErrNoQuorum)
		all := l.export()
		for _, token := range tokens {
			if secret := strings.TrimPrefix(token, "ql:"); len(secret) < 16 || strings.Contains(all, secret[:16]) {
				t.Errorf("the token %q is in what is exported", token)
			}
		}
		for _, want := range []string{"redlock.acquire", "redlock.hold", "redlock.release", "redlock.batch", "no_quorum", "redlock.lock.lost"} {
			if !strings.Contains(all, want) {
				t.Errorf("the export has no %s, so the test looks at too little", want)
			}
		}
	})
}

// Run with -race.
func TestLocksOfManyGoroutinesAreCountedOneByOne(t *testing.T) {
	const workers, rounds = 16, 40
	inBubble(t, settings{telemetry: everything()}, func(t *testing.T, l *lab) {
		other := l.open(redlock.WithHooks(l.telemetry.Hooks()))
		t.Cleanup(l.telemetry.Observe(other))
		var work sync.WaitGroup
		for i := range workers {
			work.Go(func() {
				locker := []*redlock.Locker{l.locker, other}[i%2]
				for round := range rounds {
					lock, err := locker.Acquire(t.Context(), fmt.Sprint("k", rand.IntN(8))) //nolint:gosec // any will do
					if err != nil {
						t.Errorf("Acquire = %v", err)
						return
					}
					if round%8 == 0 {
						l.collect()
					}
					if err := lock.Release(); err != nil {
						t.Errorf("Release = %v", err)
					}
				}
			})
		}
		work.Wait()
		synctest.Wait() // the ends of holds are told in turn
		for name, want := range map[string]uint64{
			"redlock.acquire.duration": workers * rounds, "redlock.acquire.tries": workers * rounds,
			"redlock.hold.duration": workers * rounds, "redlock.release.duration": workers * rounds,
		} {
			var count uint64
			for _, p := range l.points(name) {
				count += p.Count
			}
			if count != want {
				t.Errorf("%s has %d values, want %d", name, count, want)
			}
		}
		l.wantValue("redlock.locks", "", 0)
		l.wantValue("redlock.waiters", "", 0)
		if n := len(l.named("redlock.acquire")); n != workers*rounds {
			t.Errorf("there are %d spans of acquires, want %d", n, workers*rounds)
		}
	})
}
