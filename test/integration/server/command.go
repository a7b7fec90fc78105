package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// answerTimeout bounds one command.
const answerTimeout = 5 * time.Second

// A refusalError is a server's answer that begins with a minus.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// Do sends one command over a connection of its own, and returns the answer: an
// array's elements in lines of their own, and nil as "". What the server refuses is
// the error.
func (p *Process) Do(words ...string) (string, error) { return Do(p.Addr(), words...) }

// Do is [Process.Do] for any server.
func Do(addr string, words ...string) (string, error) {
	answer, err := do(context.Background(), addr, answerTimeout, words...)
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w", words[0], addr, err)
	}
	return answer, nil
}

func do(ctx context.Context, addr string, timeout time.Duration, words ...string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	if _, err := resp.WriteCommands(conn, []driver.Command{{Args: args}}); err != nil {
		return "", err
	}
	reply, err := resp.NewReader(bufio.NewReader(conn)).Reply()
	if err != nil {
		return "", err
	}
	if reply.Kind == driver.Failure {
		return "", refusalError(reply.Str)
	}
	return text(reply), nil
}

// text shows a reply: an array's elements in lines of their own, and nil as "".
func text(reply driver.Reply) string {
	switch reply.Kind {
	case driver.Integer:
		return strconv.FormatInt(reply.Int, 10)
	case driver.Array:
		lines := make([]string, len(reply.Elems))
		for i, elem := range reply.Elems {
			lines[i] = text(elem)
		}
		return strings.Join(lines, "\n")
	}
	return reply.Str
}
