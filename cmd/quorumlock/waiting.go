//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
)

// hush is how long run waits before it says for whom.
const hush = 300 * time.Millisecond

// A waitTeller tells an operator for whom run waits.
type waitTeller struct {
	*running
	began time.Time
	nodes []driver.Node // asked beside the Locker

	mu   sync.Mutex
	said bool
}

// tellWait begins to say for whom run waits, and says it again when that changes. End ends that,
// and says for how long it was if the lock is had.
func (r *running) tellWait(ctx context.Context) (end func(had bool)) {
	w := &waitTeller{running: r, began: time.Now()}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	if r.isRead() {
		w.nodes, _ = r.settings.open() // as the Locker's were
		for _, key := range r.keys {
			telling.Go(func() { w.tell(ctx, key) })
		}
	}
	return func(had bool) {
		cancel()
		telling.Wait()
		closeNodes(w.nodes)
		if had && w.said {
			r.say("has %s after %v", &r.target, time.Since(w.began).Round(time.Second/10))
		}
	}
}

// isRead reports whether anybody reads at once what run says: at a terminal, or in the journal.
func (r *running) isRead() bool {
	file, ok := r.talk.(*os.File)
	if !ok || r.quiet {
		return false
	}
	var stat syscall.Stat_t // the variable is inherited also by what has another stderr: see systemd.exec(5)
	journal := syscall.Fstat(int(file.Fd()), &stat) == nil && r.getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	return journal || term.IsTerminal(int(file.Fd()))
}

// tell says who has one of the keys.
func (w *waitTeller) tell(ctx context.Context, key string) {
	if !sleep(ctx, hush) {
		return
	}
	if out, left := sittingOut(w.locker.Stats()); out > 0 && key == w.keys[0] {
		w.waits("%d nodes sit out the longest lease, about %v more", out, left.Round(time.Second))
	}
	if w.permits != 0 {
		w.waits("there are %d", w.permits)
		return
	}
	for holder, err := range w.locker.Watch(ctx, key) {
		who, it := holder.Owner, "it"
		if len(w.keys) > 1 {
			it = fmt.Sprintf("%q", key)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if summary := redlock.Summary(err); w.looks.due(summary, time.Now()) {
				w.waits("%s", summary)
			}
			continue
		case !holder.Held || who == w.owner():
			continue
		case holder.Shared:
			who = "a reader"
		case who == "":
			who = "somebody without a name"
		}
		if !holder.Since.IsZero() {
			it += " since " + holder.Since.Format(time.RFC3339)
		}
		w.waits("%s has %s%s", who, it, w.more(ctx, key))
	}
}

// more says for how long a key is held, and how many wait for it.
func (w *waitTeller) more(ctx context.Context, key string) (text string) {
	report, err := inspect.Status(ctx, w.nodes, inspect.StatusOptions{Settings: w.settings.Settings, Keys: []string{key}})
	if err != nil || len(report.Keys) == 0 {
		return ""
	}
	k := report.Keys[0]
	if k.Left != nil && *k.Left > 0 {
		text = fmt.Sprintf(", for %v more and longer if it renews", time.Duration(*k.Left*float64(time.Second)).Round(time.Second))
	}
	if k.InLine > 1 {
		text += fmt.Sprintf("; %d wait", k.InLine)
	}
	return text
}

// waits says what there is to wait for, to the operator and to the init system.
func (w *waitTeller) waits(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("waiting for %s: ", &w.target) + fmt.Sprintf(format, args...)
	w.said = true
	w.say("%s", text)
	w.notify("STATUS=" + text)
}
