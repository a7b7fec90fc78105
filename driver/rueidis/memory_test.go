package rueidis_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// memory is a server in this process that knows SET NX and GET, for what must do
// without a network.
type memory struct {
	mu      sync.Mutex
	values  map[string]string
	instead func(args []string) (reply string, is bool) // of what follows here; may be nil
}

// dial is a rueidis.ClientOption.DialCtxFn.
func (m *memory) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	client, server := net.Pipe()
	go m.serve(server)
	return client, nil
}

func (m *memory) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.instead != nil {
		if reply, is := m.instead(args); is {
			return reply
		}
	}
	switch strings.ToUpper(args[0]) {
	case "PING":
		return "+PONG\r\n"
	case "GET":
		value, found := m.values[args[1]]
		if !found {
			return "$-1\r\n"
		}
		return fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	case "SET":
		if _, found := m.values[args[1]]; found {
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
