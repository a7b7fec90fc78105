package waiting

import (
	"context"
	"slices"
	"testing"
)

// A quietHost has five nodes, at which nothing is announced but by the test.
type quietHost struct {
	Host
	listens *[]string // to what
}

func (quietHost) Size() (nodes, quorum int)       { return 5, 3 }
func (quietHost) HolderOf(string) Holder          { return nil }
func (h quietHost) Listen(key string, _ Listener) { *h.listens = append(*h.listens, key) }
func (quietHost) Unlisten(string, Listener)       {}

func TestAWatchTellsTheTurnAtItsPresentPlaceAlone(t *testing.T) {
	w := NewKeyWatch(quietHost{listens: new([]string)}, "k", "me", make(chan struct{}, 1))
	turn := turnWatch{w}
	w.stands(10)
	for _, step := range []struct {
		place    int64
		payload  string
		from, to int // the nodes that tell
		first    bool
		news     bool
	}{
		{10, "10", 0, 2, false, false},
		{10, "10", 2, 3, true, false},
		{10, "10 behind", 0, 1, false, false},
		{10, "10 free", 0, 2, true, false},
		{20, "10 free", 0, 5, false, false}, // it stands elsewhere now
		{20, "20", 3, 5, false, false},
		{20, "20 free", 0, 2, true, false}, // two are free, and two are not
		{20, "20 free", 2, 3, true, true},
		{20, "what is that", 0, 5, true, false},
	} {
		w.stands(step.place)
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

func TestAReaderWatchesForThoseWhoTakeTurnsBehindItAsWell(t *testing.T) {
	var lines Lines
	h := quietHost{listens: new([]string)}
	reader := &Waiter{Host: placeless{h}, Lines: &lines, Key: "k", Options: Options{Name: "me"}, turn: make(chan struct{})}
	lines.join(reader)
	watch, _, _ := lines.failed(reader, "theirs", nil)
	if want := []string{"k", "k me"}; !slices.Equal(*h.listens, want) {
		t.Errorf("it listens to %q, want %q", *h.listens, want)
	}
	for node := range 3 {
		watch.OnMessage(node, "")
	}
	select {
	case <-watch.News:
	default:
		t.Error("a quorum has announced the key, and a reader, who has no place in line, is not told")
	}
}

// A placeless host's waiters stand nowhere.
type placeless struct{ quietHost }

func (placeless) Carries(context.Context) []Holder { return nil }
func (placeless) Place(*Waiter) int64              { return 0 }
