package driver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"github.com/quorumlock/quorumlock/internal/alert"
)

// maxSaid is how many bytes of a refusal are shown.
const maxSaid = 200

// Refusal returns a server's error reply to a handshake as an error with the [*ServerError], cut to 200
// printable bytes.
func Refusal(line string) error {
	return fmt.Errorf("the handshake was refused: %w", said(line))
}

// said is an error line in printable form, whoever wrote it. Servers explain themselves in lines of a
// kilobyte.
func said(line string) error {
	line = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
	if len(line) > maxSaid {
		const more = "…"
		line = strings.ToValidUTF8(line[:maxSaid-len(more)], "") + more
	}
	return Reply{Kind: Failure, Str: line}.Err()
}

// A hearing keeps a server's line on a connection, if it is an error. A server that takes no connection says
// why before any command, and hangs up: "-DENIED Redis is running in protected mode", "-ERR max number of
// clients reached". Clients take that for the reply to the first command, forget it, and report that the
// connection has ended.
type hearing struct {
	line []byte // with its "-"
	over bool   // more has come, or something else
}

// hear takes newly read bytes.
func (h *hearing) hear(p []byte) {
	if h.over || len(p) == 0 {
		return
	}
	whole := bytes.HasSuffix(h.line, []byte("\n"))
	end := bytes.IndexByte(p, '\n')
	if whole || len(h.line) == 0 && p[0] != '-' || end >= 0 && end != len(p)-1 || len(h.line)+len(p) > maxLine {
		h.over, h.line = true, nil
		return
	}
	h.line = append(h.line, p...)
}

// maxLine bounds the kept part of a line.
const maxLine = 4 << 10

// ended adds the server's line to the error of an ended connection.
func (h *hearing) ended(err error) error {
	if len(h.line) == 0 || timedOut(err) {
		return err
	}
	return fmt.Errorf("the server has hung up, and said %w (%w)", lineOf(h.line), err)
}

// timedOut reports whether the client itself has given up.
func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// unasked adds an unasked error line to the error of a connection.
func unasked(err error, p []byte) error {
	if len(p) == 0 || p[0] != '-' {
		return err
	}
	return fmt.Errorf("%w, but the server said %w", err, lineOf(p))
}

// lineOf is the first line of p, an error reply, without its "-".
func lineOf(p []byte) error {
	line, _, _ := bytes.Cut(p[1:], []byte("\n"))
	return said(string(bytes.TrimSuffix(line, []byte("\r"))))
}

// lastWordWait bounds the wait for bytes that have arrived on a connection that the server has reset: a read
// returns at once there, but a busy machine may run it late.
const lastWordWait = time.Second

// lastWord reads the last bytes of a connection to which nothing can be written any more. A server that
// wants another certificate of the client's says so, over TLS 1.3, when the client takes the handshake for
// done, and hangs up: the first write may find the end before a read finds the alert.
func (c *Conn) lastWord(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.received || timedOut(err) {
		return c.ended(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(lastWordWait)) // fails on a closed one
	if c.reading {
		for c.reading {
			c.rests.Wait()
		}
	} else {
		rest := make([]byte, maxLine)
		n, last := c.Conn.Read(rest)
		c.hear(rest[:n])
		c.last = last
	}
	if alert.Of(c.last) != "" {
		return c.last
	}
	return c.ended(err)
}
