//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shapes are trees of processes, by the scripts that start them: $TICK is the ticker, and those that
// tick are the last that are started.
var shapes = []struct{ name, text string }{
	{"one program", `exec "$TICK" ` + tickerName + ` "$D/ticks.0"`},
	{"a chain of 100 sessions", `n=${n:-100}; if [ $n -gt 0 ]; then n=$((n-1)) setsid sh -c "$SHAPE" & wait; else exec "$TICK" ` + tickerName + ` "$D/ticks.0"; fi`},
	{"a fan of 50 daemons with a child each", `for n in $(seq 50); do (setsid sh -c 'sleep 1000 & sleep 1000' &); done
		for n in 0 1 2; do (setsid "$TICK" ` + tickerName + ` "$D/ticks.$n" &); done; exec sleep 1000`},
}

// Five servers stop under locks of all kinds, and the programs ignore what asks them to end: none writes after the deadline
// that its wrapper has told last. QUORUMLOCK_DEADLINES=100 makes so many runs, on a machine that
// has more to do than it can.
func TestTheLastWriteIsBeforeTheDeadline(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("QUORUMLOCK_DEADLINES"))
	loaded := runs > 0
	if !loaded {
		t.Parallel()
		runs = 5
	}
	kinds := []string{"%[1]s", "--shared %[1]s", "%[1]s %[1]s.2", "--permits 2 %[1]s", "--permits 3 --take 2 %[1]s"}
	together := len(kinds)
	ttl := "5s"
	if os.Getuid() != 0 || !loaded {
		ttl = "20s" // only root's guard comes before others, and one with the race detector takes long to kill: the margin has to be longer
	}
	least := map[string]time.Duration{}
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
		wrappers := make([]*wrapper, n)
		for i := range wrappers {
			text := "trap '' TERM; " + shapes[(done+i)%len(shapes)].text
			args := strings.Fields("run --ttl " + ttl + " --grace 500ms " + fmt.Sprintf(kinds[i], fmt.Sprint("k", i)))
			wrappers[i] = start(t, s.nodes, append(args, "--", "/bin/sh", "-c", text), func(c *exec.Cmd) {
				c.Env = append(c.Env, "TICK="+os.Args[0], "SHAPE="+text)
			})
		}
		for _, w := range wrappers {
			w.file("ticks.0")
			w.await("extended")
		}
		thaw := s.freeze()
		for i, w := range wrappers {
			// -1: on a busy machine the guard comes first, and kills both.
			if code := w.code(); code != exitLost && code != -1 {
				t.Errorf("run %d ended with %d, want %d: %s", done+i, code, exitLost, w.talk.String())
			}
			shape := shapes[(done+i)%len(shapes)].name
			files, _ := filepath.Glob(filepath.Join(w.folder, "ticks.*"))
			for _, name := range files {
				_, last := ticks(t, name)
				margin := w.until().Sub(last)
				if before, ok := least[shape]; !ok || margin < before {
					least[shape] = margin
				}
				if margin <= 0 {
					t.Errorf("run %d, %s: the last write was %v after the deadline", done+i, shape, -margin)
				}
			}
		}
		thaw()
	}
	for shape, margin := range least {
		t.Logf("%d runs, %s: the last write was at least %v before the deadline", runs, shape, margin)
	}
}
