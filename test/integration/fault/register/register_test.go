package register

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestTheRegisterRefusesSmallerFences(t *testing.T) {
	c := dial(t, start(t, Serve))
	steps := []struct {
		key     string
		fence   int64
		write   string // "" reads
		content string // what is read
		want    error
	}{
		{key: "a", fence: 3},
		{key: "a", fence: 3, write: "one"},
		{key: "a", fence: 3, content: "one"},
		{key: "a", fence: 5, content: "one"}, // a read shows the fence, too
		{key: "a", fence: 3, write: "late", want: fence.ErrStale},
		{key: "a", fence: 4, want: fence.ErrStale},
		{key: "a", fence: 5, write: "two"},
		{key: "a", fence: 6, content: "two"},
		{key: "b", fence: 1, write: "other"}, // each key has fences of its own
		{key: "b", fence: 1, content: "other"},
		{key: "b", fence: 0, want: fence.ErrMissing},
		{key: "b", fence: 0, write: "unfenced", want: fence.ErrMissing},
		{key: "b", fence: 1, content: "other"},
	}
	for i, step := range steps {
		var content string
		var err error
		if step.write != "" {
			err = c.Write(step.key, step.fence, step.write)
		} else {
			content, err = c.Read(step.key, step.fence)
		}
		if content != step.content || !errors.Is(err, step.want) {
			t.Errorf("step %d with fence %d: %q, %v, want %q, %v", i, step.fence, content, err, step.content, step.want)
		}
	}
	var stale *fence.StaleError
	if err := c.Write("a", 2, "late"); !errors.As(err, &stale) || stale.Last != 6 || stale.Offered != 2 {
		t.Errorf("Write with fence 2 = %v, want a StaleError with 6 and 2", err)
	}
}

func TestWithoutFencesEverybodyIsServed(t *testing.T) {
	c := dial(t, start(t, ServeUnfenced))
	for _, number := range []int64{0, 7, 3, 0} {
		want := fmt.Sprint("by ", number)
		if err := c.Write("a", number, want); err != nil {
			t.Errorf("Write with fence %d: %v", number, err)
		}
		if content, err := c.Read("a", number); content != want || err != nil {
			t.Errorf("Read with fence %d = %q, %v, want %q", number, content, err, want)
		}
	}
}

// What did not arrive as a whole changes nothing, wherever it ends; what did is done,
// though nobody is there to hear of it.
func TestAClientThatCrashesInMidCall(t *testing.T) {
	s := start(t, Serve)
	c := dial(t, s)
	var sent bytes.Buffer
	words := gob.NewEncoder(&sent)
	for _, word := range []any{rpc.Request{ServiceMethod: method}, Request{Key: "a", Fence: 9, Write: true, Content: "half"}} {
		must(t, words.Encode(word))
	}
	whole := sent.Bytes()
	for end := range whole {
		crash(t, s, whole[:end])
	}
	if err := c.Write("a", 1, "whole"); err != nil {
		t.Errorf("Write behind requests that were cut: %v, want none of their fences to count", err)
	}
	crash(t, s, whole)
	if content, err := c.Read("a", 9); content != "half" || err != nil {
		t.Errorf("Read behind a request that arrived = %q, %v, want what it wrote", content, err)
	}
}

// crash sends the bytes and no more, and returns when the server has noticed.
func crash(t *testing.T, s *Server, request []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr()) //nolint:noctx // loopback
	must(t, err)
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	must(t, conn.(*net.TCPConn).CloseWrite())
	var rest [1 << 10]byte
	for err == nil {
		_, err = conn.Read(rest[:])
	}
}

func TestACallFailsWhenTheServerIsGone(t *testing.T) {
	s := start(t, Serve)
	c := dial(t, s)
	must(t, s.Close())
	if err := c.Write("a", 1, "x"); err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrMissing) {
		t.Errorf("Write to a server that is gone: %v, want an error that leaves it open", err)
	}
	if _, err := Dial(s.Addr()); err == nil {
		t.Error("Dial reached a server that is gone")
	}
}

// A step is a step: of many who write with greater and greater fences none is overtaken
// by who was before.
func TestManyAtOnce(t *testing.T) {
	const workers, rounds = 16, 200
	s := start(t, Serve)
	clients := []*Client{dial(t, s), dial(t, s)}
	var next struct {
		sync.Mutex
		number int64
	}
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			c := clients[worker%len(clients)]
			for range rounds {
				next.Lock()
				next.number++
				mine := next.number
				next.Unlock()
				err := c.Write("a", mine, fmt.Sprint(mine))
				content, again := c.Read("a", mine)
				for _, err := range []error{err, again} {
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Errorf("a call with fence %d: %v", mine, err)
					}
				}
				if again == nil && content != fmt.Sprint(mine) {
					t.Errorf("fence %d, the greatest, reads %q", mine, content)
				}
			}
		})
	}
	group.Wait()
	if content, err := clients[0].Read("a", next.number); content != fmt.Sprint(next.number) || err != nil {
		t.Errorf("in the end: %q, %v, want what the greatest fence wrote, %d", content, err, next.number)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t *testing.T, serve func() (*Server, error)) *Server {
	t.Helper()
	s, err := serve()
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func dial(t *testing.T, s *Server) *Client {
	t.Helper()
	c, err := Dial(s.Addr())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestMain(m *testing.M) { leak.Main(m) }
