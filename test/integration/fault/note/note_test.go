package note

import (
	"bufio"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/history"
)

// read makes a history of notes, of which the last line may break off.
func read(t *testing.T, text string) (log *history.Log, had int, rest string) {
	t.Helper()
	r := NewReader("p", func() { had++ })
	rest, err := r.Read(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	return r.Log(), had, rest
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	var text strings.Builder
	pen := NewPen(&text)
	before := Now()
	pen.Asked(1, "a", Patient)
	pen.Asked(2, "b", Hasty)
	until := At(time.Now().Add(time.Hour))
	pen.Had(1, until, 7)
	pen.Failed(2, "held")
	pen.Visiting(1, before, "", "p/1.1")
	pen.Returned(1)
	pen.Extended(1, until+1)
	pen.Visiting(1, before, "p/1.1", "p/1.2")
	pen.Refused(1)
	pen.Lost(1, 77, errors.New("two of three said: \"no\""))
	pen.Ended(1, until+1)
	pen.Freed(1)
	pen.AskedAt(78, 3, "d", Hasty)
	pen.Had(3, until, 8)
	pen.Ended(3, until)
	pen.Asked(1, "c", Patient)
	if err := pen.Close(); err != nil {
		t.Fatal(err)
	}
	log, had, _ := read(t, text.String())
	after := Now()

	if had != 2 || len(log.Tenures) != 2 || len(log.Visits) != 1 || len(log.Waits) != 2 {
		t.Fatalf("%d locks were had, and the log is %+v", had, log)
	}
	tenure, visit := log.Tenures[0], log.Visits[0]
	if tenure.Client != "p/1" || tenure.Key != "a" || tenure.Fence != 7 || tenure.Asked < before || tenure.Had < tenure.Asked || tenure.Ended < tenure.Had || tenure.Ended > after {
		t.Errorf("between %v and %v there was the tenure %+v", before, after, tenure)
	}
	if visit.Key != "a" || visit.Fence != 7 || visit.Called != before || visit.Returned < before || visit.Returned > after || visit.Left != "p/1.1" {
		t.Errorf("between %v and %v there was the visit %+v", before, after, visit)
	}
	if r := tenure.Release; tenure.Lost != 77 || tenure.Why != `two of three said: "no"` || r.From < tenure.Ended || r.To < r.From || r.To > after {
		t.Errorf("until %v there was the release of the tenure %+v", after, tenure)
	}
	if other := log.Tenures[1]; other.Asked != 78 || other.Lost != 0 || other.Release.To != history.Never {
		t.Errorf("the tenure that was asked for at 78 and not given back is %+v", other)
	}
	if first := log.Waits[0]; first.Answered != tenure.Had || first.Err != "" {
		t.Errorf("the lock was had at %v, and the wait for it was %+v", tenure.Had, first)
	}
	if last := log.Waits[1]; last.Key != "c" || last.Answered != history.Never {
		t.Errorf("the wait that has not ended is %+v", last)
	}
}

func TestWhatAKilledProcessWasAboutToDoIsUnknown(t *testing.T) {
	log, _, rest := read(t, "s 0 5 9\nt 0 6 70\nt 0 7 7\na 1 10 k p\nh 1 20 1020 3\nv 1 21 \"x\" \"y\"\nr 1 2")
	want := &history.Log{
		Tenures: []history.Tenure{{Client: "p/1", Key: "k", Asked: 10, Had: 20, Ended: 1020, Fence: 3}},
		Visits:  []history.Visit{{Client: "p/1", Key: "k", Fence: 3, Called: 21, Returned: history.Never, Found: "x", Left: "y"}},
		Waits:   []history.Wait{{Client: "p/1", Key: "k", Asked: 10, Answered: 20}},
		Tries:   77,
		Stopped: map[string][]history.Span{"p": {{From: 5, To: 9}}},
	}
	if !reflect.DeepEqual(log, want) || rest != "" {
		t.Errorf("the log is %+v and then %q, want %+v", log, rest, want)
	}
}

func TestTheLastWordIsNoNote(t *testing.T) {
	log, _, rest := read(t, "s 0 5 9\nt 0 6 70\nt 0 7 7\na 1 10 k p\nn 1 20 caller\n{\"Sockets\":1}\n")
	if rest != "{\"Sockets\":1}\n" || len(log.Waits) != 1 || log.Waits[0].Err != "caller" {
		t.Errorf("the last word is %q behind %+v", rest, log)
	}
}

func TestNoNoteIsPassedOver(t *testing.T) {
	for _, text := range []string{"z 1 2\n", "a one 2 k p\n", "h 1 2\n", "a 1 2\n"} {
		r := NewReader("p", func() {})
		if _, err := r.Read(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q is taken for a note", text)
		}
	}
}
