package otel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestEachEndOfAHoldIsMeasured(t *testing.T) {
	renewed := []redlock.AcquireOption{redlock.WithTTL(2 * time.Second)}
	for _, tt := range []struct {
		end, loss string
		least     time.Duration // for which it was held
		most      time.Duration
		do        func(l *lab)
	}{
		{"released", "", time.Second, time.Second + soon, func(l *lab) {
			lock := l.acquire("k")
			time.Sleep(time.Second)
			release(l.t, lock)
		}},
		{"abandoned", "", 0, soon, func(l *lab) {
			if err := l.acquire("k").Abandon(); err != nil {
				l.t.Fatal(err)
			}
		}},
		{"closed", "", 0, soon, func(l *lab) {
			l.acquire("k")
			_ = l.locker.Close()
		}},
		{"converted", "", 0, soon, func(l *lab) {
			must(l.acquire("k").Downgrade(l.t.Context()))(l.t)
		}},
		{"lost", "expired", 1900 * time.Millisecond, 2 * time.Second, func(l *lab) {
			l.acquire("k", redlock.WithTTL(2*time.Second), redlock.WithoutRenewal())
			time.Sleep(10 * time.Second)
		}},
		{"lost", "no_quorum", time.Second, 4 * time.Second, func(l *lab) {
			l.acquire("k", renewed...)
			l.nodes[1:].Stop()
			time.Sleep(10 * time.Second)
		}},
		{"lost", "taken_over", time.Second, 4 * time.Second, func(l *lab) {
			l.acquire("k", renewed...)
			l.nodes.Take("k", time.Minute)
			time.Sleep(10 * time.Second)
		}},
		{"lost", "max_hold", 4 * time.Second, 5 * time.Second, func(l *lab) {
			l.acquire("k", append(renewed, redlock.WithMaxHold(5*time.Second))...)
			time.Sleep(10 * time.Second)
		}},
	} {
		t.Run(tt.end+" "+tt.loss, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, l *lab) {
				tt.do(l)
				synctest.Wait()
				p := l.want("redlock.hold.duration", "redlock.end="+tt.end, 1)
				if p.Value < tt.least.Seconds() || p.Value > tt.most.Seconds() {
					t.Errorf("it was held for %vs, want %v to %v", p.Value, tt.least, tt.most)
				}
				lost := l.points("redlock.lock.lost")
				if tt.loss != "" {
					l.wantValue("redlock.lock.lost", "error.type="+tt.loss, 1)
				} else if len(lost) > 0 {
					t.Errorf("a lock was lost: %v", lost)
				}
			})
		})
	}
}

func TestEachOutcomeOfAnExtensionIsMeasured(t *testing.T) {
	for _, tt := range []struct {
		want string // the attributes
		do   func(l *lab, lock *redlock.Lock)
	}{
		{"redlock.outcome=extended,redlock.renewal=false", func(l *lab, lock *redlock.Lock) {
			if err := lock.Extend(l.t.Context(), time.Minute); err != nil {
				l.t.Fatal(err)
			}
		}},
		{"redlock.outcome=invalid,redlock.renewal=false", func(l *lab, lock *redlock.Lock) {
			wantErr(l.t, lock.Extend(l.t.Context(), 0), redlock.ErrOption)
		}},
		{"redlock.outcome=no_quorum,redlock.renewal=false", func(l *lab, lock *redlock.Lock) {
			l.nodes[1:].Stop()
			wantErr(l.t, lock.Extend(l.t.Context(), time.Minute), redlock.ErrNoQuorum)
		}},
		{"redlock.outcome=lost,redlock.renewal=false", func(l *lab, lock *redlock.Lock) {
			l.nodes.Take("k", time.Minute)
			wantErr(l.t, lock.Extend(l.t.Context(), time.Minute), redlock.ErrLost)
		}},
		{"redlock.outcome=released,redlock.renewal=false", func(l *lab, lock *redlock.Lock) {
			release(l.t, lock)
			wantErr(l.t, lock.Extend(l.t.Context(), time.Minute), redlock.ErrReleased)
		}},
		{"redlock.outcome=canceled,redlock.renewal=false", func(l *lab, lock *redlock.Lock) {
			ctx, cancel := context.WithCancel(l.t.Context())
			cancel()
			wantErr(l.t, lock.Extend(ctx, time.Minute), context.Canceled)
		}},
		{"redlock.outcome=closed,redlock.renewal=false", func(l *lab, lock *redlock.Lock) {
			_ = l.locker.Close()
			wantErr(l.t, lock.Extend(l.t.Context(), time.Minute), redlock.ErrClosed)
		}},
	} {
		t.Run(tt.want, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, l *lab) {
				tt.do(l, l.acquire("k"))
				l.want("redlock.extend.duration", tt.want, 1)
				if spare := l.points("redlock.renewal.spare_votes"); len(spare) > 0 {
					t.Errorf("an Extend is no renewal, and has spare votes: %v", spare)
				}
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

func TestEachOutcomeOfAReleaseIsMeasured(t *testing.T) {
	for _, tt := range []struct {
		want string // the attributes
		do   func(l *lab, lock *redlock.Lock)
	}{
		{"redlock.handed_over=false,redlock.outcome=released", func(l *lab, lock *redlock.Lock) { release(l.t, lock) }},
		{"redlock.handed_over=true,redlock.outcome=released", func(l *lab, lock *redlock.Lock) {
			next := l.wait("k")
			release(l.t, lock)
			next()
		}},
		{"redlock.handed_over=false,redlock.outcome=lost", func(l *lab, lock *redlock.Lock) {
			time.Sleep(time.Minute)
			wantErr(l.t, lock.Release(), redlock.ErrLost)
		}},
		{"redlock.handed_over=false,redlock.outcome=no_quorum", func(l *lab, lock *redlock.Lock) {
			synctest.Wait() // all nodes have it
			l.nodes[1:].Stop()
			wantErr(l.t, lock.Release(), redlock.ErrNoQuorum)
		}},
	} {
		t.Run(tt.want, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, l *lab) {
				lock := l.acquire("k", redlock.WithoutRenewal())
				tt.do(l, lock)
				if p := l.want("redlock.release.duration", tt.want, 1); p.Value > 1 {
					t.Errorf("it took %vs", p.Value)
				}
			})
		})
	}
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
