package resp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// wire is a client's end of a pipe.
type wire struct {
	*resp.Conn
	released bool
}

func (w *wire) Release() { w.released = true }

// stage is a session, its notices, and the server's end of its wire.
type stage struct {
	*resp.Session
	t       *testing.T
	wire    *wire
	server  net.Conn
	notices chan driver.Notice
	drop    context.CancelCauseFunc
}

// onStage runs a test of a session in virtual time, and sees to it that the wire is released.
func onStage(t *testing.T, test func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		s := &stage{
			t: t, wire: &wire{Conn: resp.NewConn(ours)}, server: theirs,
			notices: make(chan driver.Notice, 10),
		}
		life, drop := context.WithCancelCause(t.Context())
		s.drop = drop
		s.Session = resp.NewSession(life, "pipe", s.wire, func(n driver.Notice) { s.notices <- n })
		test(s)
		begun := time.Now()
		for range 2 {
			if err := s.Close(); err != nil || time.Since(begun) != 0 {
				t.Errorf("Close = %v after %v, want nil at once", err, time.Since(begun))
			}
		}
		if len(s.notices) > 0 || !s.wire.released {
			t.Errorf("after Close there are %d notices, and the wire is released: %t; want none, and that it is", len(s.notices), s.wire.released)
		}
		drop(nil)
	})
}

// ends fails the test unless the session has ended for a reason, and says so.
func (s *stage) ends(want string) {
	s.t.Helper()
	if n := <-s.notices; n.Kind != driver.Ended || n.Err == nil || n.Err.Error() != want {
		s.t.Errorf("came %+v, want that it has ended: %s", n, want)
	}
	for name, call := range map[string]func(context.Context, ...string) error{"Add": s.Add, "Remove": s.Remove} {
		if err := call(s.t.Context(), "more"); err == nil || err.Error() != want {
			s.t.Errorf("%s after the end = %v, want %s", name, err, want)
		}
	}
}

const short = 200 * time.Millisecond

// Nobody reads at the other end.
func TestAContextEndsASendAndWithItTheSession(t *testing.T) {
	for _, waiting := range []int{0, 3} {
		onStage(t, func(s *stage) {
			ctx, cancel := context.WithTimeout(s.t.Context(), short)
			defer cancel()
			begun := time.Now()
			var senders sync.WaitGroup
			for range 1 + waiting {
				senders.Go(func() {
					err := s.Add(ctx, "channel")
					if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != short {
						s.t.Errorf("Add with %d more waiting = %v after %v, want its deadline after %v", waiting, err, took, short)
					}
				})
			}
			senders.Wait()
			s.ends("pipe: context deadline exceeded")
		})
	}
}

func TestTheContextOfWhoWaitsEndsTheSession(t *testing.T) {
	onStage(t, func(s *stage) {
		ctx, cancel := context.WithCancel(s.t.Context())
		var first sync.WaitGroup
		first.Go(func() {
			if err := s.Add(s.t.Context(), "first"); !errors.Is(err, context.Canceled) {
				s.t.Errorf("the Add under way = %v, want that another was cancelled", err)
			}
		})
		synctest.Wait()
		time.AfterFunc(short, cancel)
		begun := time.Now()
		if err := s.Remove(ctx, "second"); !errors.Is(err, context.Canceled) {
			s.t.Errorf("the Remove that waited = %v, want that it was cancelled", err)
		}
		first.Wait()
		if took := time.Since(begun); took != short {
			s.t.Errorf("a cancel after %v ended all after %v", short, took)
		}
		s.ends("pipe: context canceled")
	})
}

func TestAnAddWithoutTimeEndsTheSession(t *testing.T) {
	for range 50 { // the write may win the race against the context
		onStage(t, func(s *stage) {
			go func() { _, _ = io.Copy(io.Discard, s.server) }()
			ctx, cancel := context.WithCancel(s.t.Context())
			cancel()
			if err := s.Add(ctx, "channel"); !errors.Is(err, context.Canceled) {
				s.t.Errorf("Add = %v, want that it was cancelled", err)
			}
			s.ends("pipe: context canceled")
		})
	}
}

func TestCloseEndsAnAdd(t *testing.T) {
	onStage(t, func(s *stage) {
		added := make(chan error)
		go func() { added <- s.Add(s.t.Context(), "channel") }()
		synctest.Wait()
		_ = s.Close()
		if err := <-added; err == nil || err.Error() != "pipe: the subscription is closed" {
			s.t.Errorf("the Add under way = %v, want that the subscription is closed", err)
		}
	})
}

func TestASessionEndsOnceForTheFirstReason(t *testing.T) {
	for want, end := range map[string]func(s *stage){
		"pipe: EOF":                  func(s *stage) { _ = s.server.Close() },
		"pipe: the driver is closed": func(s *stage) { s.drop(driver.ErrClosed) },
		"pipe: so it is":             func(s *stage) { s.End(errors.New("so it is")) },
	} {
		onStage(t, func(s *stage) {
			end(s)
			s.ends(want)
			s.drop(errors.New("a later reason"))
			synctest.Wait()
		})
	}
}

func TestChannelsGoOutTogetherInACommandEach(t *testing.T) {
	onStage(t, func(s *stage) {
		go func() { _ = s.Add(s.t.Context(), "a", "b", "c") }() // ends with the session
		raw := make([]byte, 1024)
		n, _ := s.server.Read(raw) // what one Write has
		const want = "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\n"
		if got := string(raw[:n]); got != want+"a\r\n"+want+"b\r\n"+want+"c\r\n" {
			s.t.Errorf("for three channels one write has %q, want a SUBSCRIBE for each", got)
		}
	})
}
