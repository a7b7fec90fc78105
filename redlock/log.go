package redlock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// LogTo returns hooks for [WithHooks] that log what an operator should know:
//
//	Error  a lock was lost: its key, why, and how long it was held
//	Warn   a renewal that not all nodes have granted, with these nodes; a node is down, in quarantine, …
//	Info   a node is up again, or votes again
//
// Of each node it logs at most 10 pieces of news at once and then one in 6s, and the next record counts the
// others ("omitted"). A nil logger is slog.Default. No record has a token.
func LogTo(log *slog.Logger) Hooks {
	if log == nil {
		log = slog.Default()
	}
	l := &eventLog{log: log, budgets: make(map[string]*budget)}
	return Hooks{HoldEnd: l.holdEnd, ExtendEnd: l.extendEnd, Node: l.node}
}

// An eventLog is where the hooks of LogTo log.
type eventLog struct {
	log *slog.Logger

	mu      sync.Mutex
	budgets map[string]*budget // by the record's sort and node
}

// A budget bounds the records of one sort.
type budget struct {
	left    int
	filled  time.Time // when a record was last added to tokens
	omitted int
}

const (
	logBurst = 10
	logPause = 6 * time.Second
)

// allows reports whether a record of this sort may be written, and how many were not since the
// last.
func (l *eventLog) allows(sort string) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.budgets[sort]
	if b == nil {
		b = &budget{left: logBurst, filled: now}
		l.budgets[sort] = b
	}
	if more := int(now.Sub(b.filled) / logPause); more > 0 {
		b.left, b.filled = min(logBurst, b.left+more), b.filled.Add(time.Duration(more)*logPause)
	}
	if b.left == 0 {
		b.omitted++
		return 0, false
	}
	b.left--
	omitted, b.omitted = b.omitted, 0
	return omitted, true
}

func (l *eventLog) holdEnd(ctx context.Context, h HoldEnd) {
	if h.Reason == endLost {
		l.log.LogAttrs(ctx, slog.LevelError, "a lock was lost",
			slog.String("key", h.Key), slog.String("kind", h.Kind), seconds("held", h.Lasted), slog.Int64("fence", h.Fence), slog.Any("error", parts(h.Err)))
	}
}

func (l *eventLog) extendEnd(ctx context.Context, e ExtendEnd) {
	if !e.Renewal || e.Granted == e.Nodes || errors.Is(e.Err, ErrReleased) || errors.Is(e.Err, ErrClosed) {
		return
	}
	omitted, some := 0, false
	for _, v := range e.Votes() {
		if v.Answer != grantedVote {
			more, ok := l.allows("renewal " + v.Node)
			omitted, some = max(omitted, more), some || ok
		}
	}
	if some {
		l.log.LogAttrs(ctx, slog.LevelWarn, "a renewal is short of votes", withOmitted([]slog.Attr{slog.Any("renewal", e)}, omitted)...)
	}
}

func (l *eventLog) node(e Event) {
	omitted, ok := l.allows("node " + e.Node)
	if !ok {
		return
	}
	level := slog.LevelWarn
	switch e.Kind {
	case NodeUp, NodeAdmitted:
		level = slog.LevelInfo
	case LockForgotten:
		level = slog.LevelError
	}
	l.log.LogAttrs(context.Background(), level, e.Kind.String(), withOmitted([]slog.Attr{slog.Any("event", e)}, omitted)...)
}

// withOmitted appends how many records were left out, if any were.
func withOmitted(attrs []slog.Attr, omitted int) []slog.Attr {
	if omitted == 0 {
		return attrs
	}
	return append(attrs, slog.Int("omitted", omitted))
}

// seconds shows a duration: not every handler writes the unit.
func seconds(name string, d time.Duration) slog.Attr { return slog.Float64(name+"_s", d.Seconds()) }

// LogValue shows the lock of any kind, without its token.
func (l *Lock) LogValue() slog.Value {
	group := []slog.Attr{slog.String("key", l.Key()), slog.String("kind", l.kind()), seconds("left", max(0, l.hold.Left()))}
	switch {
	case len(l.slots) == 1:
		group = append(group, slog.Int("slot", l.slots[0].number))
	case len(l.slots) > 1:
		group = append(group, slog.Any("slots", l.slots.numbers()))
	}
	if fence := l.Fence(); fence != 0 {
		group = append(group, slog.Int64("fence", fence))
	}
	return slog.GroupValue(group...)
}

// LogValue shows the event, without its time, which the record has.
func (e Event) LogValue() slog.Value {
	group := []slog.Attr{slog.String("kind", e.Kind.String())}
	if e.Node != "" {
		group = append(group, slog.String("node", e.Node))
	}
	if e.Lasted != 0 {
		group = append(group, seconds("lasted", e.Lasted))
	}
	return slog.GroupValue(withError(group, e.Err)...)
}

// LogValue shows the vote.
func (v Vote) LogValue() slog.Value {
	group := []slog.Attr{slog.String("node", v.Node), slog.String("answer", v.Answer), seconds("latency", v.Latency)}
	if v.Owner != "" {
		group = append(group, slog.String("owner", v.Owner))
	}
	if !v.Since.IsZero() {
		group = append(group, slog.Time("since", v.Since))
	}
	if v.Key != "" {
		group = append(group, slog.String("key", v.Key))
	}
	if v.InLine {
		group = append(group, slog.Bool("in_line", true))
	}
	return slog.GroupValue(withError(group, v.Err)...)
}

// LogValue shows the extension, and the nodes that have not granted it.
func (e ExtendEnd) LogValue() slog.Value {
	group := []slog.Attr{
		slog.String("key", e.Key), slog.Int("attempt", e.Attempt), slog.Int("granted", e.Granted), slog.Int("need", e.Need), slog.Int("nodes", e.Nodes),
		slog.Time("until", e.Until),
	}
	var missing []Vote
	for _, v := range e.Votes() {
		if v.Answer != grantedVote {
			missing = append(missing, v)
		}
	}
	if e.Err != nil { // with the votes
		return slog.GroupValue(withError(group, e.Err)...)
	}
	return slog.GroupValue(append(group, votesAttr(missing))...)
}

// LogValue shows the error in its parts: see [Summary].
func (e *QuorumError) LogValue() slog.Value {
	group := []slog.Attr{
		slog.String("summary", Summary(e)), slog.String("op", e.Op), slog.String("key", e.Key), slog.String("reason", e.Reason.Error()), slog.Int("need", e.Need),
	}
	if owner := e.Owner(); owner != "" {
		group = append(group, slog.String("owner", owner))
	}
	return slog.GroupValue(append(group, votesAttr(e.Votes))...)
}

// LogValue shows the error in its parts: see [Summary].
func (e *waitError) LogValue() slog.Value {
	group := []slog.Attr{slog.String("summary", Summary(e)), slog.Int("tries", e.Tries), seconds("waited", e.Waited)}
	if e.end != nil {
		group = append(group, slog.String("end", e.end.Error()))
	}
	return slog.GroupValue(withError(group, e.last)...)
}

// withError appends an error, if there is one.
func withError(group []slog.Attr, err error) []slog.Attr {
	if err == nil {
		return group
	}
	return append(group, slog.Any("error", parts(err)))
}

// parts shows an error as a group, with a summary that is the same for all alike.
func parts(err error) slog.Value {
	if known, ok := err.(slog.LogValuer); ok {
		return known.LogValue()
	}
	group := []slog.Attr{slog.String("summary", Summary(err))}
	if text := err.Error(); text != Summary(err) {
		group = append(group, slog.String("text", text))
	}
	return slog.GroupValue(group...)
}

// votesAttr shows the nodes' answers. No name of a node is a key: a log must not have as many keys as there
// are nodes.
func votesAttr(votes []Vote) slog.Attr {
	said := make([]string, len(votes))
	for i, v := range votes {
		v.Latency = 0 // or no two records would be alike
		said[i] = v.String()
	}
	return slog.Any("votes", said)
}

// Summary returns the beginning of an error's text, to count logs by: the failed operation, its key and the
// reason, without nodes' answers and numbers.
func Summary(err error) string {
	var quorum *QuorumError
	var closed *closeError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &closed):
		return "redlock: close: no quorum has confirmed the release of some keys"
	case errors.As(err, &quorum):
		return quorum.summary()
	}
	var wait *waitError
	if errors.As(err, &wait) {
		return wait.last.Error()
	}
	return err.Error()
}
