package waiting

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acquire"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A quietHost has no locks, and its waiters leave no tickets.
type quietHost struct{ Host }

func (quietHost) HolderOf(string) Holder       { return nil }
func (quietHost) Channels(key string) []string { return []string{key} }
func (quietHost) Heard(int)                    {}
func (quietHost) NewTicket(*Waiter) Ticket     { return nil }

// newLines returns the lines of a Locker with five nodes, at which nothing is announced but by the test.
func newLines(h Host) *Lines {
	c := node.Config{Clock: clockdrift.New(), Quorum: 3, Go: func(func()) bool { return false }, Jitter: func(time.Duration) time.Duration { return 0 }}
	return &Lines{Site: &Site{Set: node.NewSet(c, slices.Repeat([]driver.Node{{Driver: mute{}}}, 5))}, Host: h}
}

// A mute node is never subscribed to.
type mute struct{ driver.Driver }

func (mute) Subscribe(context.Context, func(driver.Notice)) (driver.Subscription, error) {
	panic("subscribed")
}

// newWatch returns a watch of a key, in new lines.
func newWatch() *KeyWatch {
	return NewKeyWatch(newLines(quietHost{}), "k", "me", make(chan struct{}, 1))
}

// listens is to how many channels of a node anybody of a Locker listens.
func (s *Site) listens() int { return s.Nodes[0].Left().Channels }

func TestAWatchTellsTheTurnAtItsPresentPlaceAlone(t *testing.T) {
	w := newWatch()
	turn := ear{w, w.line()}
	w.inLine(10, true, false)
	for _, step := range []struct {
		place    int64
		payload  string
		from, to int // the nodes that tell
		first    bool
		news     bool
	}{
		{10, "10", 0, 2, false, false},
		{10, "10", 2, 3, true, false},
		{10, "10 behind", 0, 1, false, true},
		{10, "10 free", 0, 2, true, false},
		{20, "10 free", 0, 5, false, false}, // it stands elsewhere now
		{20, "20", 3, 5, false, false},
		{20, "20 free", 0, 2, true, false}, // two are free, and two are not
		{20, "20 free", 2, 3, true, true},
		{20, "what is that", 0, 5, true, false},
	} {
		w.inLine(step.place, true, false)
		for node := step.from; node < step.to; node++ {
			turn.OnMessage(node, step.payload)
		}
		if first := w.first(); first != step.first {
			t.Errorf("at place %d nodes %d to %d tell %q: first = %v, want %v", step.place, step.from+1, step.to, step.payload, first, step.first)
		}
		news := false
		select {
		case <-w.News:
			news = true
		default:
		}
		if news != step.news {
			t.Errorf("at place %d nodes %d to %d tell %q: its turn = %v, want %v", step.place, step.from+1, step.to, step.payload, news, step.news)
		}
	}
}

func TestAWatchListensToTheLineOnceSomebodyStandsThere(t *testing.T) {
	w := newWatch()
	for _, step := range []struct {
		place int64
		turns bool
		want  int
	}{{0, true, 1}, {10, false, 2}, {20, true, 2}, {0, true, 2}} {
		w.inLine(step.place, step.turns, false)
		if listens := w.lines.listens(); listens != step.want {
			t.Errorf("at place %d it listens to %d channels, want %d", step.place, listens, step.want)
		}
		for node := range 3 {
			ear{w, 0}.OnMessage(node, "")
		}
		news := len(w.News) > 0
		w.Arm()
		if want := !step.turns || step.place == 0; news != want {
			t.Errorf("at place %d, with turns %v, a quorum has announced the key, and that is news: %v, want %v", step.place, step.turns, news, want)
		}
	}
	w.inLine(20, true, false)
	for node := range 3 {
		ear{w, 0}.OnSubscribed(node, true)
	}
	if w.quorate() {
		t.Error("an announcement would arrive by the one channel, and it is told by the other")
	}
	if len(w.News) > 0 {
		t.Error("that part of what is announced arrives is news")
	}
	for node := range 3 {
		ear{w, w.line()}.OnSubscribed(node, true)
	}
	if !w.quorate() {
		t.Error("announcements would arrive by both channels, and the watch does not say so")
	}
	for _, now := range []string{"arrive: what came before was missed", "do not arrive any more"} {
		if len(w.News) == 0 {
			t.Errorf("it is no news that announcements %s", now)
		}
		w.Arm()
		ear{w, 0}.OnSubscribed(0, false)
	}
}

func TestThatReadersShareTheKeyIsNoNewsForAWriterInLine(t *testing.T) {
	for _, test := range []struct {
		place       int64
		reads, news bool
	}{{10, false, false}, {0, false, true}, {10, true, true}} {
		w := newWatch()
		w.inLine(test.place, false, test.reads)
		for node := range 3 {
			ear{w, 0}.OnMessage(node, protocol.SharedNow)
		}
		if news := len(w.News) > 0; news != test.news {
			t.Errorf("at place %d, for a reader %v, that others share the key is news: %v, want %v", test.place, test.reads, news, test.news)
		}
	}
}

// A placed host's waiters have tickets.
type placed struct{ quietHost }

func (placed) NewTicket(*Waiter) Ticket { return &paper{maybe: true} }

func TestAWatchThatAReaderBeganTellsThoseWhoTakeTurns(t *testing.T) {
	lines := newLines(placed{})
	fails := func(o acquire.Manner) *Waiter {
		w := &Waiter{Lines: lines, Key: "k", Keys: []string{"k"}, Context: t.Context(), Waiting: acquire.Waiting{Manner: o}, nudged: make(chan struct{}, 1)}
		w.rank.Store(10)
		lines.join(w)
		lines.failed(w, "", nil)
		return w
	}
	reader := fails(acquire.Manner{Name: "me"})
	turns := fails(acquire.Manner{Name: "me", Fair: true})
	lines.leave(reader, nil)
	lines.failed(turns, "", nil)
	if listens := lines.listens(); listens != 2 {
		t.Errorf("the process listens to %d channels, want the key's and its own in the key's line", listens)
	}
}

func TestWhoStandsForAPlainLockTriesWhereItIsFirst(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		lines := newLines(placed{})
		if !keeps {
			lines.Nodes[0].OnNews(protocol.News{Lineless: true})
		}
		w := &Waiter{Lines: lines, Key: "k", Keys: []string{"k"}, Context: t.Context(), Waiting: acquire.Waiting{Manner: acquire.Manner{Name: "me", Ages: true}, Crowded: true}, nudged: make(chan struct{}, 1)}
		w.rank.Store(10)
		lines.join(w)
		lines.look(w)
		lines.failed(w, "", nil)
		watch := (*w.watches)[0]
		for node := range 3 {
			ear{watch, 0}.OnMessage(node, "")
		}
		if news := len(watch.News) > 0; news == keeps {
			t.Errorf("where nodes keep lines, %v, a release that is announced to all is news to one who is not first: %v", keeps, news)
		}
		for node := range 3 {
			ear{watch, watch.line()}.OnMessage(node, "10 free")
		}
		if len(watch.News) == 0 {
			t.Error("that it is first, and the key free, is no news")
		}
	}
}

// Two nodes announce the key before a try, which is decided without them, and a third one after it.
func TestAnAnnouncementOutlivesATryThatTheNodeHasNotHeardOf(t *testing.T) {
	w := newWatch()
	announce := func(node int) { ear{w, 0}.OnMessage(node, "") }
	announce(2)
	announce(3)
	announce(4)
	w.Arm()
	three := acquire.Found{Nodes: []acquire.FoundAt{3: {Unheard: true}, 4: {Unheard: true}}} // it is taken at the others
	if free := w.found(&three); free || len(w.News) > 0 {
		t.Error("what a node announced counts though it has refused a try since")
	}
	announce(0)
	if len(w.News) == 0 {
		t.Error("three nodes have announced the key, of which none has refused it since, and that is no news")
	}
}

// What two nodes announced before a try makes no key free at a quorum together with the one that the try found free:
// that would be no news of the try, and hide the next announcement.
func TestWhatWasAnnouncedBeforeATryIsNoNewsOfItAndHidesNone(t *testing.T) {
	w := newWatch()
	announce := func(node int) { ear{w, 0}.OnMessage(node, "") }
	announce(3)
	announce(4)
	w.Arm()
	if w.found(&acquire.Found{Nodes: []acquire.FoundAt{0: {Free: true}, 3: {Unheard: true}, 4: {Unheard: true}}}) || len(w.News) > 0 {
		t.Error("a try that two nodes have refused, and one has not, found the key free at a quorum")
	}
	announce(1)
	if len(w.News) == 0 {
		t.Error("one of those that refused the try announces the key, and that is no news")
	}
}
