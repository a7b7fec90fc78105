package redlock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/quorum"
	"github.com/quorumlock/quorumlock/internal/waiting"
)

// A Holder is the holder of a key, by a quorum of the nodes.
type Holder struct {
	Held   bool      // somebody holds the key
	Owner  string    // by [WithOwner]; "": the holder has no name, or another library
	Since  time.Time // when the key was taken, by its holder's clock; zero: not known, as without an Owner
	Shared bool      // readers share the key: see [Locker.AcquireShared]
	ID     string    // tells holders apart, but not readers: a digest of the hidden token
}

// Watch yields the holder of the key: first now, and then at each change, until the loop is left. A holder was
// seen at a quorum of the nodes, and may have lost the lock since, or not know yet that it has the lock:
// compare fences before acting on its word.
//
// A change by a release is seen within a few round trips, and any other within a second, for two small reads a
// second at each node. While no quorum answers, or none agrees for a second, Watch yields one error, which
// matches [ErrNoQuorum] or [ErrContended], and goes on. The last error matches [ErrOption] (the key),
// [ErrClosed], or the context's.
func (l *Locker) Watch(ctx context.Context, key string) iter.Seq2[Holder, error] {
	return func(yield func(Holder, error) bool) {
		if err := l.options.checkKey(key); err != nil {
			yield(Holder{}, err)
			return
		}
		w := &watcher{locker: l, key: key, gone: make(map[string]bool)}
		watch := waiting.NewKeyWatch(&l.lines, key, "", make(chan struct{}, 1))
		defer watch.End()
		for goes := true; goes; {
			watch.Arm() // before the reading: announcements meanwhile count
			holder, news, err := w.read(ctx)
			switch {
			case ctx.Err() != nil:
				yield(Holder{}, &fault.StateError{Op: "watch", Key: key, Why: fault.EndOf(ctx)})
				return
			case l.closed():
				yield(Holder{}, &fault.StateError{Op: "watch", Key: key, Why: ErrClosed})
				return
			case err != nil && !w.failing:
				w.failing = true
				goes = yield(Holder{}, err)
			case err == nil && news:
				goes = yield(holder, nil)
			}
			if goes {
				w.rest(ctx, watch.News)
			}
		}
	}
}

// A watcher is a Watch under way.
type watcher struct {
	locker  *Locker
	key     string
	known   bool // a holder was yielded, or nobody
	token   string
	left    time.Duration // at the last reading
	gone    map[string]bool
	failing bool // an error was yielded since the last holder
	vague   int  // uncertain readings in a row
	polls   int  // since the holder was last seen to change
}

// maxGone is how many replaced holders are remembered.
const maxGone = 1024

// read asks the nodes, and reports whether the holder has changed since the last reading.
func (w *watcher) read(ctx context.Context) (h Holder, news bool, err error) {
	op, err := w.locker.inspect(ctx, w.key)
	if err != nil {
		return Holder{}, false, err
	}
	token, left, certain := w.quorum(op)
	if !certain && w.locker.awaitClosed(ctx, op.Op.Name, w.key, op.Full) == nil {
		token, left, certain = w.quorum(op)
	}
	switch {
	case !certain:
		if w.vague++; w.vague > vagueReadings {
			return Holder{}, false, w.unclear(op)
		}
		return Holder{}, false, nil
	case w.gone[token]:
		token, left = "", 0
	}
	w.vague, w.left = 0, left
	if news = !w.known || w.failing || token != w.token; !news {
		w.polls++
		return Holder{}, false, nil
	}
	if token != w.token && protocol.Marked(w.token) && w.token != protocol.SharedValue {
		if len(w.gone) >= maxGone {
			clear(w.gone)
		}
		w.gone[w.token] = true
	}
	w.known, w.failing, w.token, w.polls = true, false, token, 0
	if token == "" {
		return Holder{}, true, nil
	}
	sum := sha256.Sum256([]byte(token))
	return Holder{Held: true, Owner: protocol.Owner(token), Since: protocol.Since(token), Shared: token == protocol.SharedValue, ID: hex.EncodeToString(sum[:8])}, true, nil
}

// quorum returns the holder's token by a quorum, or "" if a quorum says that nobody has the key, and for how
// long a quorum still has it. Uncertain: no quorum agrees.
func (w *watcher) quorum(op *quorum.Operation) (token string, left time.Duration, certain bool) {
	need := w.locker.board.Quorum
	count := make(map[string]int)
	for _, v := range op.Tally().Votes {
		var held string
		var rest time.Duration
		switch v.Answer {
		case protocol.Taken:
			held, rest = v.Reply.Inspected()
			if _, revoked := protocol.Revoked(held); revoked {
				held = "" // a tombstone: nobody has the key, though nobody can get it yet
			}
		case protocol.Absent:
		default:
			continue
		}
		if count[held]++; count[held] >= need {
			return held, max(left, rest), true
		}
		left = max(left, rest)
	}
	return "", 0, false
}

// unclear words an uncertain reading.
func (w *watcher) unclear(op *quorum.Operation) error {
	if err := failed(op); errors.Is(err, ErrNoQuorum) {
		return err
	}
	return failure(op, ErrContended)
}

// The pauses between readings.
const (
	watchPause    = time.Second // the longest
	firstLook     = 5 * time.Millisecond
	vagueReadings = 8
)

// rest waits until the next reading: for an announcement, the end of the holder's lease, or a pause, which
// is short while nobody is known to have the key, for somebody may be about to.
func (w *watcher) rest(ctx context.Context, news <-chan struct{}) {
	pause := watchPause
	switch {
	case w.vague > 0:
		pause = firstLook << min(w.vague, vagueReadings)
	case w.token == "" && w.polls < vagueReadings:
		pause = firstLook << w.polls
	case w.token != "" && w.left > 0:
		pause = min(pause, w.left)
	}
	pause = min(watchPause, pause/2+w.locker.board.Jitter(pause/2+1))
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-news:
		w.polls = 0
	case <-ctx.Done():
	case <-w.locker.closing:
	}
}
