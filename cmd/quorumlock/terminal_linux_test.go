package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/test/patient"
)

// terminal is a pseudo terminal of 24 lines: what shows it and types, and what programs have of it.
func terminal(t *testing.T) (shows, writes *os.File) {
	t.Helper()
	shows, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shows.Close() })
	// Not by Fd, behind which a Close waits for the Read that it should end.
	control := func(f *os.File, do func(fd int) error) {
		t.Helper()
		raw, err := f.SyscallConn()
		if err == nil {
			var failed error
			err = cmp.Or(raw.Control(func(fd uintptr) { failed = do(int(fd)) }), failed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	number := 0
	control(shows, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	if writes, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writes.Close() })
	control(writes, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	})
	return shows, writes
}

// A watched is what a run of status --watch writes.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	code chan int
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// until waits for texts.
func (w *watched) until(t *testing.T, texts ...string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("status --watch shows %q", w)
		}
	}()
	patient.Until(t, fmt.Sprintf("status --watch shows %q", texts), func() bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(w.String(), text) })
	})
}

// watch runs status --watch on a terminal.
func (s *site) watch(ctx context.Context, shows, writes *os.File, talk io.Writer) *watched {
	w := &watched{code: make(chan int, 1)}
	go func() { _, _ = io.Copy(w, shows) }() // until it is closed
	tl := &tool{in: strings.NewReader(""), out: writes, talk: talk, getenv: having(append(s.env(), "TERM=xterm", "HOME=/nowhere")...)}
	go func() { w.code <- tl.run(ctx, []string{"status", "--watch=100ms"}) }()
	return w
}

func TestAWatchRedrawsItsScreenAndEndsWithASignal(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, longLease)
	shows, writes := terminal(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var talk bytes.Buffer
	w := s.watch(ctx, shows, writes, &talk)
	w.until(t, "nothing is held")
	s.put("42", hand("1", "pod-7"), longLease, 1, 2, 3)
	w.until(t, "pod-7 (1111…)")
	s.servers[1].Kill()
	w.until(t, "node 2 ("+s.servers[1].Addr+")", "held at exactly a quorum")
	s.servers[2].Kill()
	w.until(t, "1 of 3 nodes answer")
	frames := strings.Split(w.String(), "\x1b[H")
	if len(frames) < 4 || strings.Count(w.String(), "\x1b[2J") != 1 {
		t.Errorf("there are %d frames, and the screen was wiped %d times: want some, and once", len(frames), strings.Count(w.String(), "\x1b[2J"))
	}
	for _, frame := range frames[1 : len(frames)-1] {
		if strings.Count(frame, "\n") >= 24 || !strings.HasSuffix(frame, "\x1b[K\x1b[J") && !strings.HasSuffix(frame, "\x1b[2J") {
			t.Errorf("a frame is higher than the screen, or leaves what was below: %q", frame)
		}
	}
	cancel(interrupted(syscall.SIGINT))
	if code := <-w.code; code != 128+int(syscall.SIGINT) || !strings.Contains(talk.String(), "interrupt") {
		t.Errorf("interrupted, status --watch ends with %d, %q, want 130", code, talk.String())
	}
}

func TestAWatchEndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, longLease)
	shows, writes := terminal(t)
	var talk bytes.Buffer
	w := s.watch(t.Context(), shows, writes, &talk)
	w.until(t, "nothing is held")
	_ = shows.Close()
	if code := <-w.code; code != exitOK || talk.Len() > 0 {
		t.Errorf("without its terminal status --watch ends with %d, %q, want 0 and nothing to say", code, talk.String())
	}
}

func TestAWatchIntoAPipeEndsWithItsReader(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, longLease)
	s.put("42", hand("1", "pod-7"), longLease, 1)
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writes.Close()
	var talk bytes.Buffer
	w := s.watch(t.Context(), reads, writes, &talk)
	w.until(t, "pod-7", "\n\nKEY") // two tables
	if strings.Contains(w.String(), "\x1b") {
		t.Errorf("a pipe gets escapes: %q", w)
	}
	_ = reads.Close()
	if code := <-w.code; code != exitOK {
		t.Errorf("without its reader status --watch ends with %d, %q, want 0", code, talk.String())
	}
}

func TestAFrameFitsItsTerminal(t *testing.T) {
	page := strings.Repeat("a\n", 30)
	if got := frame(page, 10, false); strings.Count(got, "\n") != 9 || !strings.Contains(got, "… 21 lines more") {
		t.Errorf("a frame of 30 lines on 10 is %q", got)
	}
	if got := frame("a\n", 10, true); got != "\x1b[2J\x1b[Ha\x1b[K\x1b[J" {
		t.Errorf("the first frame is %q", got)
	}
}

func TestNowGoesOnIfTheKeyIsTypedOnATerminal(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	held := must(s.locker.Acquire(s.ctx(), "42"))(t)
	s.everywhere(prefix + "42")
	for _, tt := range []struct {
		typed string
		code  int
		want  string
	}{
		{"43\n", exitUsage, held.Token()},
		{"\x04", exitUsage, held.Token()}, // the end of the input
		{"42\n", exitOK, ""},
	} {
		var out, talk bytes.Buffer
		keyboard, screen := terminal(t)
		if _, err := keyboard.WriteString(tt.typed); err != nil {
			t.Fatal(err)
		}
		tl := &tool{in: screen, out: &out, talk: &talk, getenv: having(s.env()...)}
		code := tl.run(t.Context(), []string{"release", "42", "--force", "--now"})
		if value := s.at(prefix + "42")[0]; code != tt.code || value != tt.want || !strings.Contains(talk.String(), "Type the key") {
			t.Errorf("with %q typed release --now = %d, %q, and the key is %.11q; want code %d", tt.typed, code, talk.String(), value, tt.code)
		}
	}
}
