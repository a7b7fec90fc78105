//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// Five servers stop, and the programs ignore what asks them to end: none writes after the deadline
// that its wrapper has told last. QUORUMLOCK_DEADLINES=100 makes so many runs, on a machine that has
// more to do than it can.
func TestTheLastWriteIsBeforeTheDeadline(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("QUORUMLOCK_DEADLINES"))
	loaded := runs > 0
	if !loaded {
		t.Parallel()
		runs = 3
	}
	const together = 5
	ttl := "5s"
	if os.Getuid() != 0 {
		ttl = "20s" // only root's guard comes before others, so the margin has to be longer
	}
	least := time.Hour
	s := newMasters(t, 5)
	if loaded {
		for range 2 * runtime.NumCPU() {
			busy := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do :; done")
			if err := busy.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
		}
	}
	for done := 0; done < runs; done += together {
		n := min(together, runs-done)
		folder := t.TempDir()
		wrappers := make([]*wrapper, n)
		for i := range wrappers {
			wrappers[i] = start(t, s.nodes, []string{"run", "--ttl", ttl, "--grace", "500ms", fmt.Sprint("k", i), "--", os.Args[0], tickerName, filepath.Join(folder, fmt.Sprint(i))})
		}
		for _, w := range wrappers {
			w.await("extended")
		}
		thaw := s.freeze()
		for i, w := range wrappers {
			if code := w.code(); code != exitLost {
				t.Errorf("run %d ended with %d, want %d: %s", done+i, code, exitLost, w.talk.String())
			}
			_, last := ticks(t, filepath.Join(folder, fmt.Sprint(i)))
			margin := w.until().Sub(last)
			if least = min(least, margin); margin <= 0 {
				t.Errorf("run %d: the last write was %v after the deadline", done+i, -margin)
			}
		}
		thaw()
	}
	t.Logf("%d runs: the last write was at least %v before the deadline", runs, least)
}
