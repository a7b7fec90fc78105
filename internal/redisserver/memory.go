package redisserver

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/driver/resp"
)

// Memory is a server in this process for tests without a network. It knows PING, SET NX and
// GET.
type Memory struct {
	// Instead answers in place of what Memory knows, where ok. It may be nil.
	Instead func(args []string) (reply string, ok bool)

	mu     sync.Mutex
	values map[string]string
	conns  []net.Conn
}

// Dial returns the client's end of a new connection.
func (m *Memory) Dial() net.Conn {
	client, server := net.Pipe()
	go m.Serve(server)
	return client
}

// Cut breaks all connections.
func (m *Memory) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		_ = conn.Close()
	}
	m.conns = nil
}

// Send sends text on all connections.
func (m *Memory) Send(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, conn := range m.conns {
		_, _ = io.WriteString(conn, text)
	}
}

// Serve answers the commands of a connection.
func (m *Memory) Serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	m.mu.Lock()
	m.conns = append(m.conns, conn)
	m.mu.Unlock()
	for commands := resp.NewReader(bufio.NewReader(conn)); ; {
		args, err := commands.Command()
		if err != nil || len(args) == 0 {
			return
		}
		if _, err := io.WriteString(conn, m.answer(args)); err != nil {
			return
		}
	}
}

func (m *Memory) answer(args []string) string {
	if m.Instead != nil {
		if reply, ok := m.Instead(args); ok {
			return reply
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch strings.ToUpper(args[0]) {
	case "PING":
		return "+PONG\r\n"
	case "GET":
		value, found := m.values[args[1]]
		if !found {
			return "$-1\r\n"
		}
		return Bulk(value)
	case "SET":
		if _, found := m.values[args[1]]; found && len(args) > 3 && args[3] == "NX" {
			return "$-1\r\n"
		}
		if m.values == nil {
			m.values = map[string]string{}
		}
		m.values[args[1]] = args[2]
		return "+OK\r\n"
	}
	return "-ERR unknown command '" + args[0] + "'\r\n"
}

// Bulk encodes a string.
func Bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }
