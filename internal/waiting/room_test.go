package waiting

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/internal/fault"
)

// A crowdedRoom has room for two, who are in it.
type crowdedRoom struct {
	*Room
	t       *testing.T
	closing chan struct{}
	told    chan string
}

const roomTimeout = 100 * time.Millisecond // of a node

func newCrowdedRoom(t *testing.T, trip time.Duration) *crowdedRoom {
	t.Helper()
	r := &crowdedRoom{t: t, closing: make(chan struct{}), told: make(chan string, 100)}
	r.Room = &Room{Clock: clockdrift.New(), Batch: 2, Trip: func() time.Duration { return trip }, Closing: r.closing}
	for range 2 + int(trip/tryEach) {
		if _, err := r.Enter(t.Context(), roomTimeout, 0); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// come lets a caller come, whose name or error is told when it is in.
func (r *crowdedRoom) come(ctx context.Context, name string, maxWait time.Duration) {
	go func() {
		if _, err := r.Enter(ctx, roomTimeout, maxWait); err != nil {
			name = err.Error()
		}
		r.told <- name
	}()
	synctest.Wait()
}

// tells fails the test unless just these were told.
func (r *crowdedRoom) tells(what string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	var got []string
	for len(r.told) > 0 {
		got = append(got, <-r.told)
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: %q came in, or said why not; want %q", what, got, want)
	}
}

func TestTheCallerThatCameFirstHasTheFirstTurn(t *testing.T) {
	for _, trip := range []time.Duration{0, 10 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := newCrowdedRoom(t, trip)
			for _, name := range []string{"a", "b", "c"} {
				r.come(t.Context(), name, time.Hour)
			}
			r.tells("while the room is full")
			for _, name := range []string{"a", "b", "c"} {
				r.Leave()
				r.tells("when one has left", name)
			}
		})
	}
}

func TestWhereTheFirstHasWaitedTooLongSevenTurnsOfEightGoToTheLast(t *testing.T) {
	for _, c := range []struct {
		is      string
		left    time.Duration
		maxWait time.Duration
		late    time.Duration
	}{
		{"a node time-out", time.Hour, time.Hour, roomTimeout},
		{"half of what its context leaves it", 80 * time.Millisecond, time.Hour, 40 * time.Millisecond},
		{"half of its longest wait", time.Hour, 60 * time.Millisecond, 30 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newCrowdedRoom(t, 0)
			ctx, cancel := context.WithTimeout(t.Context(), c.left)
			defer cancel()
			r.come(ctx, "first", c.maxWait)
			time.Sleep(c.late - time.Nanosecond)
			r.come(t.Context(), "second", time.Hour)
			r.Leave()
			r.tells("just before it has waited for "+c.is, "first")

			ctx, cancel = context.WithTimeout(t.Context(), c.left)
			defer cancel()
			r.Leave()
			r.tells("at once", "second")
			r.come(ctx, "first", c.maxWait)
			time.Sleep(c.late)
			for range mostPassed {
				r.come(t.Context(), "earlier", time.Hour)
				r.come(t.Context(), "last", time.Hour)
				r.Leave()
				r.tells("behind "+c.is, "last")
			}
			r.Leave()
			r.tells("the eighth turn", "first")
		})
	}
}

func TestACallerThatHasNoTurnInItsTimeIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCrowdedRoom(t, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		r.come(ctx, "its context ends", time.Hour)
		r.come(t.Context(), "its longest wait ends", time.Second)
		r.come(t.Context(), "its Locker is closed", time.Hour)
		over := errors.New("its request is over")
		cancel(over)
		r.tells("at the end of its context", ErrFull.Error()+": "+context.Canceled.Error()+": "+over.Error())
		time.Sleep(time.Second - time.Nanosecond)
		r.tells("just before its longest wait is over")
		time.Sleep(time.Nanosecond)
		r.tells("when its longest wait is over", ErrFull.Error())
		close(r.closing)
		r.tells("at Close", fault.ErrClosed.Error())
		if inside, waiting := r.Len(); inside != 2 || waiting != 0 {
			t.Errorf("%d are in the room and %d wait, want 2 and none", inside, waiting)
		}
	})
}

// The turn may come while its caller gives up: then it is the next one's.
func TestNoTurnIsLostWithACallerThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 500 {
			r := newCrowdedRoom(t, 0)
			ctx, cancel := context.WithCancel(t.Context())
			r.come(ctx, "first", time.Hour)
			r.come(t.Context(), "second", time.Hour)
			cancel()
			r.Leave() // as a rule before the first has found out
			synctest.Wait()
			if inside, waiting := r.Len(); inside != 2 || waiting != 0 {
				t.Fatalf("%d are in the room and %d wait, want 2 and none: a turn was lost, or one was given twice", inside, waiting)
			}
		}
	})
}

// More is asked for than can be done for ever, and no caller gives up.
func TestEveryoneHasATurnWhileTooMuchIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 100
		r := newCrowdedRoom(t, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		turns, most := 0, 0
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for {
					mu.Lock()
					began := turns
					mu.Unlock()
					if _, err := r.Enter(ctx, roomTimeout, time.Hour); err != nil {
						return
					}
					mu.Lock()
					turns++
					most = max(most, turns-began)
					mu.Unlock()
				}
			})
		}
		for range 20 * callers * (mostPassed + 1) {
			time.Sleep(time.Millisecond)
			r.Leave()
		}
		cancel()
		all.Wait()
		// Each eighth turn is the first's, and as many are before one as were there when it came.
		if bound := callers * (mostPassed + 1); most > bound || most < callers {
			t.Errorf("one waited while others had %d turns, want at most %d, and at least %d or there was no crowd", most, bound, callers)
		}
	})
}
