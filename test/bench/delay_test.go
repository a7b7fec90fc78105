package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/leak"
)

// The delay, the crowds and the services are processes that run this program again: here, the test.
func TestMain(m *testing.M) {
	serve()
	leak.Main(m)
}

// startEcho starts a server that says what it hears.
func startEcho(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener
}

func TestDelay(t *testing.T) {
	delay, err := startDelay([]string{startEcho(t).Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = delay.Close() }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", delay.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	replies := bufio.NewReader(conn)
	for _, want := range []time.Duration{0, 20 * time.Millisecond, 0} {
		if err := delay.Set(0, want); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := io.WriteString(conn, "one\ntwo\n"); err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"one\n", "two\n"} {
			if got, err := replies.ReadString('\n'); got != line {
				t.Fatalf("with a delay of %v the answer is %q (%v), want %q", want, got, err, line)
			}
		}
		if took := time.Since(start); took < want {
			t.Errorf("with a delay of %v the answer took %v", want, took)
		}
	}
}

func TestDelayHangsUpWithTheServer(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.WriteString(conn, "bye")
			_ = conn.Close()
		}
	}()
	delay, err := startDelay([]string{listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = delay.Close() }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", delay.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var said strings.Builder
	if _, err := io.Copy(&said, conn); err != nil || said.String() != "bye" {
		t.Errorf("the server said %q and hung up (%v), want %q", said.String(), err, "bye")
	}
}
