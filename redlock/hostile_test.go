package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
)

// driverFunc is a driver that breaks its contract.
type driverFunc func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error)

func (f driverFunc) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	return f(ctx, cmds)
}

func TestADriverThatBreaksItsContractIsAFailedNode(t *testing.T) {
	for name, do := range map[string]driverFunc{
		"panics":          func(context.Context, []driver.Command) ([]driver.Reply, error) { panic("oops") },
		"returns nothing": func(context.Context, []driver.Command) ([]driver.Reply, error) { return nil, nil },
		"returns too much": func(_ context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			return make([]driver.Reply, len(cmds)+3), errors.New("and an error")
		},
		"returns unknown kinds": func(_ context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			replies := make([]driver.Reply, len(cmds))
			for i := range replies {
				replies[i].Kind = 99
			}
			return replies, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, nodes := fakeNodes(3)
			nodes[0].Driver = do
			locker, err := New(nodes)
			if err != nil {
				t.Fatalf("New = %v", err)
			}
			defer locker.Close()
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("one of three drivers %s: TryAcquire = %v", name, err)
			}
			synctest.Wait()
			if vote := lock.Votes()[0]; vote.Answer == Granted && name != "returns too much" {
				t.Errorf("a driver that %s has voted: %v", name, vote)
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("one of three drivers %s: Release = %v", name, err)
			}
		})
	}
}

func TestADriverThatIgnoresItsContextHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		release := make(chan struct{})
		fakes[0].change(func(f *fakeNode) { f.block = release })
		began := time.Now()
		for range 100 {
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("TryAcquire = %v", err)
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Fatalf("Release = %v", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("100 cycles took %v, want the 5s of the pauses", took)
		}
		if calls := fakes[0].batches(); calls > 2+node.MaxWindow {
			t.Errorf("%d calls hang in the driver, want at most %d", calls, node.MaxWindow)
		}
		close(release)
	})
}

func TestRepliesThatNoServerGivesAreNoVotes(t *testing.T) {
	odd := []driver.Reply{
		{Kind: driver.Integer, Int: 1},
		{Kind: driver.Integer, Int: -1},
		{Kind: driver.Array},
		{Kind: driver.Array, Elems: []driver.Reply{{}}},
		{Kind: driver.Failure},
		{Kind: driver.Failure, Str: "garbage"},
		{Kind: 200},
	}
	for i, reply := range odd {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1, WithMaxOutage(0))
			fakes[0].answer = func(args []any) *driver.Reply {
				if args[0] != "SET" {
					return nil
				}
				return &reply
			}
			if _, err := locker.Acquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) {
				t.Errorf("reply %d (%+v) to an acquire: Acquire = %v, want ErrNoQuorum", i, reply, err)
			}
		})
	}
	odd = append(odd[1:], driver.Reply{}, driver.Reply{Kind: driver.String, Str: "OK"}, driver.Reply{Kind: driver.Integer, Int: 3})
	for i, reply := range odd {
		synctest.Test(t, func(t *testing.T) {
			locker, fakes := newLocker(t, 1)
			lock := mustAcquire(t, locker, "k")
			fakes[0].change(func(f *fakeNode) {
				f.answer = func(args []any) *driver.Reply {
					if args[0] != "EVALSHA" {
						return nil
					}
					return &reply
				}
			})
			if err := lock.Extend(t.Context(), time.Minute); !errors.Is(err, ErrNoQuorum) {
				t.Errorf("reply %d (%+v) to an extension: Extend = %v, want ErrNoQuorum", i, reply, err)
			}
			fakes[0].change(func(f *fakeNode) { f.answer = nil })
		})
	}
}

func TestTheScriptsSourceIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		for range 3 {
			lock, err := locker.TryAcquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("TryAcquire = %v", err)
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("Release = %v", err)
			}
		}
		if evals, shas := fakes[0].count("EVAL"), fakes[0].count("EVALSHA"); evals != 1 || shas != 3 {
			t.Errorf("3 releases made %d EVAL and %d EVALSHA, want 1 and 3", evals, shas)
		}
		fakes[0].change(func(f *fakeNode) { clear(f.loaded) }) // SCRIPT FLUSH, or a restart
		lock, _ := locker.TryAcquire(t.Context(), "k")
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release after SCRIPT FLUSH = %v", err)
		}
	})
}

func TestAServerThatNeverKnowsItsScriptIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 1)
		lock, _ := locker.TryAcquire(t.Context(), "k")
		fakes[0].change(func(f *fakeNode) {
			f.answer = func(args []any) *driver.Reply {
				if args[0] == "EVAL" || args[0] == "EVALSHA" {
					return &driver.Reply{Kind: driver.Failure, Str: "NOSCRIPT No matching script."}
				}
				return nil
			}
		})
		if err := lock.Release(t.Context()); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("Release = %v, want ErrNoQuorum", err)
		}
		fakes[0].change(func(f *fakeNode) { f.answer = nil })
	})
}

// An idle connection that the server has closed fails at its next use, and so do
// those to all nodes at once.
func TestABatchOnADeadConnectionIsSentOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		warm(t, locker)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.cuts = 1 })
		}
		lock, err := locker.TryAcquire(t.Context(), "k")
		if err != nil {
			t.Fatalf("TryAcquire over connections that were closed while idle = %v", err)
		}
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.cuts = 1 })
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Errorf("Release over connections that were closed while idle = %v", err)
		}
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.cuts = 5 })
		}
		if _, err := locker.TryAcquire(t.Context(), "k"); !errors.Is(err, ErrNoQuorum) || !errors.Is(err, errCut) {
			t.Errorf("TryAcquire over connections that break twice = %v, want ErrNoQuorum and the cause", err)
		}
	})
}

func TestKeysAndTokensMayHoldAnyBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		for i, key := range []string{"\x00\r\n\xff", "{}", "{", "}{", "{a}b", "€", string(make([]byte, maxKey))} {
			lock, err := locker.TryAcquire(t.Context(), key, WithToken(fmt.Sprintf("%d\x00\r\n%d", i, i)))
			if err != nil {
				t.Errorf("TryAcquire of key %d = %v", i, err)
				continue
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("Release of key %d = %v", i, err)
			}
		}
	})
}
