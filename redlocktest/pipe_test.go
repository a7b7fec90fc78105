package redlocktest

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestPipeClose(t *testing.T) {
	client, node := newPipe("node", func() time.Duration { return 0 })
	_, _ = node.Write([]byte("bye")) // shows in what is read
	_ = node.Close()                 // is always nil
	if rest, err := io.ReadAll(client); err != nil || string(rest) != "bye" {
		t.Errorf("after the other end has closed: read %q, %v, want what was written, and the end", rest, err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write to an end that has closed = %v, want %v", err, io.ErrClosedPipe)
	}
	if _, err := node.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close = %v, want %v", err, net.ErrClosed)
	}
	if _, err := node.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close = %v, want %v", err, net.ErrClosed)
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := newPipe("node", func() time.Duration { return 0 })
		start := time.Now()
		_ = client.SetDeadline(start.Add(time.Second)) // is always nil
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Read with nothing there = %v after %v, want the deadline after 1s", err, time.Since(start))
		}
		_ = client.SetWriteDeadline(start.Add(3 * time.Second)) // is always nil
		n, err := client.Write(make([]byte, requestBuffer+1))
		if n != requestBuffer || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("Write to an end that does not read = %d, %v after %v, want a full buffer and the deadline after 3s", n, err, time.Since(start))
		}
	})
}

func TestPipeKeepsOrderWhenTheDelayShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := time.Second
		client, node := newPipe("node", func() time.Duration { return delay })
		_, _ = node.Write([]byte("a")) // shows in what is read
		delay = 0
		_, _ = node.Write([]byte("b")) // shows in what is read
		_ = node.Close()               // is always nil
		start := time.Now()
		got, err := io.ReadAll(client)
		if err != nil || string(got) != "ab" || time.Since(start) != time.Second {
			t.Errorf("read %q, %v after %v, want ab after 1s", got, err, time.Since(start))
		}
	})
}
