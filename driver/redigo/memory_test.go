package redigo_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// memory is a server in this process that knows PING, SET, a BLPOP that finds nothing,
// a SUBSCRIBE to one channel and an AUTH that nobody passes, for what must do without
// a network.
type memory struct {
	mu     sync.Mutex
	values map[string]string
	conns  []net.Conn
}

// dial is a redis.Pool.Dial.
func (m *memory) dial() (redis.Conn, error) {
	client, server := net.Pipe()
	go m.serve(server)
	return redis.NewConn(client, 0, 0), nil
}

// listen serves a free port of loopback as well, and returns its address.
func (m *memory) listen(t *testing.T) string {
	t.Helper()
	return listen(t, m.serve)
}

// listen serves the connections to a free port of loopback, and returns its address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
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
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

// cut breaks all connections. A dial makes a new one.
func (m *memory) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		_ = conn.Close()
	}
	m.conns = nil
}

// publish reaches all connections, whatever they subscribe to.
func (m *memory) publish(channel, payload string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		_, _ = fmt.Fprintf(conn, "*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(channel), channel, len(payload), payload)
	}
}

func (m *memory) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	m.mu.Lock()
	m.conns = append(m.conns, conn)
	m.mu.Unlock()
	for in := bufio.NewReader(conn); ; {
		var n int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		args := make([]string, n)
		for i := range args {
			var size int
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			arg := make([]byte, size+2)
			if _, err := io.ReadFull(in, arg); err != nil {
				return
			}
			args[i] = string(arg[:size])
		}
		if _, err := io.WriteString(conn, m.answer(args)); err != nil {
			return
		}
	}
}

func (m *memory) answer(args []string) string {
	switch strings.ToUpper(args[0]) {
	case "PING":
		return "+PONG\r\n"
	case "AUTH":
		return "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	case "SUBSCRIBE":
		return fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(args[1]), args[1])
	case "SET":
		return m.set(args[1], args[2], len(args) > 3 && args[3] == "NX")
	case "BLPOP":
		seconds, _ := strconv.Atoi(args[2])
		if seconds == 0 { // for ever
			return ""
		}
		time.Sleep(time.Duration(seconds) * time.Second)
		return "*-1\r\n"
	}
	return "-ERR unknown command '" + args[0] + "'\r\n"
}

func (m *memory) set(key, value string, absent bool) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.values[key]; found && absent {
		return "$-1\r\n"
	}
	if m.values == nil {
		m.values = map[string]string{}
	}
	m.values[key] = value
	return "+OK\r\n"
}
