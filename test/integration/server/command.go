package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
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
	var command strings.Builder
	fmt.Fprintf(&command, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&command, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(conn, command.String()); err != nil {
		return "", err
	}
	return answer(bufio.NewReader(conn))
}

// answer reads one answer in RESP2.
func answer(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("an empty line is no answer")
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '-':
		return "", refusalError(text)
	case '$', '*':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", err
		}
		if kind == '$' {
			bulk := make([]byte, n+len("\r\n"))
			_, err := io.ReadFull(from, bulk)
			return string(bulk[:n]), err
		}
		elements := make([]string, n)
		for i := range elements {
			if elements[i], err = answer(from); err != nil {
				return "", err
			}
		}
		return strings.Join(elements, "\n"), nil
	}
	return text, nil
}
