package patient

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(r) }

func TestACheckPassesAtTheFirstScaleThatIsSlowEnough(t *testing.T) {
	for _, tt := range []struct {
		enough time.Duration
		tried  []time.Duration
		failed bool
	}{
		{1, []time.Duration{1}, false},
		{3, []time.Duration{1, 4}, false},
		{16, []time.Duration{1, 4, 16}, false},
		{17, []time.Duration{1, 4, 16}, true},
	} {
		r, tried := &recorder{TB: t}, []time.Duration(nil)
		AtScales(r, func(scale time.Duration) error {
			if tried = append(tried, scale); scale < tt.enough {
				return errors.New("too fast")
			}
			return nil
		})
		scaled, passed := &recorder{TB: t}, 0
		Scaled(scaled, func(t testing.TB, scale time.Duration) {
			if scale < tt.enough {
				t.Fatal("too fast")
			}
			passed++
		})
		if scaled.failed != tt.failed || (passed == 1) == tt.failed {
			t.Errorf("a test that passes from %d times on has passed %d times, and failed: %t, want %t", tt.enough, passed, scaled.failed, tt.failed)
		}
		if !slices.Equal(tried, tt.tried) || r.failed != tt.failed {
			t.Errorf("what passes from %d times on was tried at %v and failed: %t, want %v and %t", tt.enough, tried, r.failed, tt.tried, tt.failed)
		}
	}
}

func TestUntilWaitsAsLongAsTheGuard(t *testing.T) {
	for _, tt := range []struct {
		after  time.Duration
		failed bool
	}{{0, false}, {Guard - time.Second, false}, {2 * Guard, true}} {
		synctest.Test(t, func(t *testing.T) {
			r, begun := &recorder{TB: t}, time.Now()
			func() {
				defer func() { _ = recover() }()
				Until(r, "it is time", func() bool { return time.Since(begun) >= tt.after })
			}()
			if took := time.Since(begun); r.failed != tt.failed || took > Guard+beat {
				t.Errorf("what holds after %v: failed: %t after %v, want %t, and no later than the guard", tt.after, r.failed, took, tt.failed)
			}
		})
	}
}

func TestAWatchShowsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Start()
		time.Sleep(time.Second + beat/2)
		if took := w.Took(); took != time.Second {
			t.Errorf("the watch shows %v for a second", took)
		}
	})
}

func TestAWatchStandsStillWithItsProcess(t *testing.T) {
	const stop = 300 * time.Millisecond
	w, begun := Start(), time.Now()
	script := fmt.Sprintf("kill -STOP %[1]d; sleep %[2]g; kill -CONT %[1]d", os.Getpid(), stop.Seconds())
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput(); err != nil { //nolint:gosec // the test's own
		t.Fatalf("the process was not stopped: %v: %s", err, out)
	}
	took := w.Took()
	if passed := time.Since(begun); passed-took < stop-2*beat {
		t.Errorf("the watch shows %v of %v, of which the process stood still for %v", took, passed, stop)
	}
}
