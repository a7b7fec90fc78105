package otel

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestEachEndOfAHoldIsMeasured(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		for _, reason := range []string{"released", "abandoned", "closed", "converted", "forgotten"} {
			l.telemetry.Hooks().HoldEnd(t.Context(), redlock.HoldEnd{Key: "k", Reason: reason, Lasted: time.Second})
			if p := l.want("redlock.hold.duration", "redlock.end="+reason, 1); p.Value != 1 {
				t.Errorf("a hold of 1s that was %s lasted %vs", reason, p.Value)
			}
		}
		if lost := l.points("redlock.lock.lost"); len(lost) > 0 {
			t.Errorf("a lock was lost: %v", lost)
		}
	})
}

func TestEachLossIsMeasured(t *testing.T) {
	renewed := []redlock.AcquireOption{redlock.WithTTL(2 * time.Second)}
	for _, tt := range []struct {
		why         string
		least, most time.Duration // for which it was held
		options     []redlock.AcquireOption
		strike      func(l *lab)
	}{
		{"expired", 1900 * time.Millisecond, 2 * time.Second, append(renewed, redlock.WithoutRenewal()), func(*lab) {}},
		{"no_quorum", time.Second, 4 * time.Second, renewed, func(l *lab) { l.nodes[1:].Stop() }},
		{"taken_over", time.Second, 4 * time.Second, renewed, func(l *lab) { l.nodes.Take("k", time.Minute) }},
		{"max_hold", 4 * time.Second, 5 * time.Second, append(renewed, redlock.WithMaxHold(5*time.Second)), func(*lab) {}},
	} {
		t.Run(tt.why, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, l *lab) {
				l.acquire("k", tt.options...)
				tt.strike(l)
				time.Sleep(10 * time.Second)
				p := l.want("redlock.hold.duration", "redlock.end=lost", 1)
				if p.Value < tt.least.Seconds() || p.Value > tt.most.Seconds() {
					t.Errorf("it was held for %vs, want %v to %v", p.Value, tt.least, tt.most)
				}
				l.wantValue("redlock.lock.lost", "error.type="+tt.why, 1)
			})
		})
	}
}

func TestRenewalsAndTheirSpareVotesAreMeasured(t *testing.T) {
	for down, want := range []float64{1, 0, 0} { // of three nodes, two of which are a quorum
		inBubble(t, settings{}, func(t *testing.T, l *lab) {
			l.acquire("k", redlock.WithTTL(3*time.Second))
			l.nodes[size-down:].Stop()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			came := "extended"
			if down == 2 {
				came = "no_quorum"
			}
			renewals, ok := l.find("redlock.extend.duration", "redlock.outcome="+came+",redlock.renewal=true")
			spare := l.points("redlock.renewal.spare_votes")
			if !ok || len(spare) != 1 || spare[0].Count != renewals.Count || spare[0].Value != want*float64(spare[0].Count) {
				t.Errorf("with %d nodes down, of the renewals %v the spare votes are %v, want %v each", down, renewals, spare, want)
			}
		})
	}
}

func TestARenewalThatAReleaseOvertakesHasNoSpareVotes(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		hooks := l.telemetry.Hooks()
		ctx := hooks.AcquireStart(t.Context(), redlock.AcquireStart{Key: "k", Kind: "exclusive"})
		for _, over := range []error{redlock.ErrReleased, redlock.ErrClosed} {
			err := &redlock.QuorumError{Op: "renew", Key: "k", Need: 2, Votes: make([]redlock.Vote, size), Reason: over}
			hooks.ExtendEnd(ctx, redlock.ExtendEnd{Key: "k", Renewal: true, Need: 2, Nodes: size, Err: err})
		}
		if spare := l.points("redlock.renewal.spare_votes"); len(spare) > 0 {
			t.Errorf("renewals that had no more to do have spare votes: %v", spare)
		}
		l.want("redlock.extend.duration", "redlock.outcome=released,redlock.renewal=true", 1)
		hooks.ExtendEnd(ctx, redlock.ExtendEnd{Key: "k", Renewal: true, Granted: 1, Need: 2, Nodes: size, Err: redlock.ErrNoQuorum})
		if p := l.want("redlock.renewal.spare_votes", "", 1); p.Value != 0 {
			t.Errorf("a renewal that failed has %v spare votes, want 0", p.Value)
		}
	})
}

func TestFenceRoundsAreCounted(t *testing.T) {
	inBubble(t, settings{locker: []redlock.Option{redlock.WithFences()}}, func(t *testing.T, l *lab) {
		hooks := l.telemetry.Hooks()
		call := redlock.AcquireStart{Key: "k", Kind: "exclusive"}
		for _, rounds := range []int{0, 2, 1} {
			hooks.AcquireEnd(hooks.AcquireStart(t.Context(), call), redlock.AcquireEnd{AcquireStart: call, FenceRounds: rounds})
		}
		l.wantValue("redlock.fence.rounds", "", 3)
	})
}
