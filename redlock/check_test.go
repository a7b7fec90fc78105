package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
)

func TestCheckNamesTheNodesThatHaveNoVote(t *testing.T) {
	for _, tt := range []struct {
		name   string
		harm   func(f *fakeNode)
		says   string
		also   error
		option Option
	}{
		{"nothing", func(*fakeNode) {}, "", nil, WithTTL(10 * time.Second)},
		{"a replica", func(f *fakeNode) { f.info = "role:slave\r\nmaster_host:h\r\nmaster_port:1\r\n" }, "replica", ErrNode, WithTTL(10 * time.Second)},
		{"evicts", func(f *fakeNode) { f.info = "role:master\r\nmaxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n" }, "noeviction", ErrNode, WithTTL(10 * time.Second)},
		{"cut off", func(f *fakeNode) { f.refused = driver.NotSent(errCut) }, errCut.Error(), nil, WithTTL(10 * time.Second)},
		{"silent", func(f *fakeNode) { f.hung = make(chan struct{}) }, "no answer within", nil, WithTTL(10 * time.Second)},
		{"not admitted", func(*fakeNode) {}, "in quarantine", ErrQuarantine, guard10()},
	} {
		for down := range 4 {
			synctest.Test(t, func(t *testing.T) {
				locker, fakes := newLocker(t, 3, tt.option)
				if tt.name == "not admitted" {
					admit(t, locker)
				}
				for _, f := range fakes[:down] {
					f.change(tt.harm)
					if tt.name == "not admitted" {
						f.restart()
					}
				}
				err := locker.Check(t.Context())
				for _, f := range fakes[:down] { // the Locker is to be closed
					f.change(func(f *fakeNode) {
						if f.hung != nil {
							close(f.hung)
							f.hung = nil
						}
					})
				}
				var unfit *CheckError
				switch {
				case tt.says == "" || down == 0:
					if err != nil {
						t.Errorf("%s: Check = %v", tt.name, err)
					}
				case !errors.As(err, &unfit) || len(unfit.Unfit) != down || !strings.Contains(err.Error(), tt.says) ||
					!strings.Contains(err.Error(), fakes[0].name) || strings.Contains(err.Error(), fakes[2].name) != (down == 3):
					t.Errorf("%s, at %d of 3: Check = %v, want an error that names them and says %q", tt.name, down, err, tt.says)
				case errors.Is(err, ErrNoQuorum) != (down > 1) || tt.also != nil && !errors.Is(err, tt.also):
					t.Errorf("%s, at %d of 3: Check = %v, want ErrNoQuorum: %t, and %v", tt.name, down, err, down > 1, tt.also)
				}
			})
		}
	}
}

// A node that has just failed is asked by nobody else for up to a second.
func TestCheckAsksANodeThatOthersDoNotAskYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		fakes[0].stop()
		for range 2 {
			mustRelease(t, mustAcquire(t, locker, "k"))
			time.Sleep(300 * time.Millisecond)
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); err != nil {
			t.Fatalf("TryAcquire = %v", err)
		}
		begun := time.Now()
		if err := locker.Check(t.Context()); err == nil || strings.Contains(err.Error(), "not asked") {
			t.Errorf("Check of a silent node = %v, want the silence of this question", err)
		}
		if took := time.Since(begun); took < 250*time.Millisecond {
			t.Errorf("Check of a silent node took %v, so it has not asked", took)
		}
		fakes[0].resume()
		synctest.Wait() // the probe is over, and the node cools down
		if err := locker.Check(t.Context()); err != nil {
			t.Errorf("Check of a node that answers again = %v", err)
		}
	})
}

// An error that says that a node gave no answer within a time does not come before that time: who was
// not asked is told so.
func TestAnErrorSaysForHowLongTheNodeWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for i := range 2 {
			fakes[i].stop()
		}
		early := 0
		for i := range 40 {
			_, err := locker.TryAcquire(t.Context(), "k")
			var quorum *QuorumError
			if !errors.As(err, &quorum) {
				t.Fatalf("TryAcquire = %v, want a QuorumError", err)
			}
			for _, v := range quorum.Votes {
				var silence *fault.SilenceError
				switch {
				case !errors.As(v.Err, &silence):
				case strings.HasPrefix(v.Err.Error(), "not asked again yet") || strings.HasPrefix(v.Err.Error(), "its probe got"):
					early++
				case v.Latency < silence.After:
					t.Errorf("%v contradicts itself", v)
				}
			}
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
		}
		if early == 0 {
			t.Error("each request has asked the nodes, so this test shows nothing")
		}
		for i := range 2 {
			fakes[i].resume()
		}
	})
}

func TestCheckEndsWithItsContextAndTheLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		if err := locker.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		fakes[1].change(func(f *fakeNode) { f.hung = make(chan struct{}) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := locker.Check(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), fakes[1].name) {
			t.Errorf("Check = %v, want the end of its context and %s", err, fakes[1].name)
		}
		fakes[1].change(func(f *fakeNode) { close(f.hung); f.hung = nil })
		_ = locker.Close()
		if err := locker.Check(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Check of a Locker that was closed = %v, want ErrClosed", err)
		}
	})
}
