package redlocktest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

// checkArgs returns an error where a command cannot be sent.
func checkArgs(cmds []driver.Command) error {
	for _, cmd := range cmds {
		for _, arg := range cmd.Args {
			if _, ok := arg.(string); !ok {
				return fmt.Errorf("redlocktest: an argument of %v is a %T, not a string", cmd.Args[0], arg)
			}
		}
	}
	return nil
}

// writeCommands writes the commands in RESP, and returns how many bytes have left. It
// puts them into words piece by piece, because a large batch as a whole takes long
// enough to outlast its context.
func writeCommands(w io.Writer, cmds []driver.Command) (int, error) {
	sent := &counter{Writer: w}
	out := bufio.NewWriterSize(sent, writeBuffer) // it keeps the first error
	for _, cmd := range cmds {
		_, _ = fmt.Fprintf(out, "*%d\r\n", len(cmd.Args))
		for _, arg := range cmd.Args {
			text := arg.(string) //nolint:forcetypeassert // checkArgs has looked
			_, _ = fmt.Fprintf(out, "$%d\r\n", len(text))
			_, _ = out.WriteString(text)
			_, _ = out.WriteString("\r\n")
		}
	}
	err := out.Flush()
	return sent.n, err
}

// writeBuffer holds a batch as locks send it.
const writeBuffer = 64 << 10

// counter counts what is written.
type counter struct {
	io.Writer
	n int
}

func (c *counter) Write(buf []byte) (int, error) {
	n, err := c.Writer.Write(buf)
	c.n += n
	return n, err
}

var errProtocol = errors.New("redlocktest: the reply is not in RESP2")

// readReply reads one reply in RESP2.
func readReply(r *bufio.Reader) (driver.Reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		if line != "" {
			err = noEOF(err)
		}
		return driver.Reply{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return driver.Reply{}, errProtocol
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return driver.Reply{Kind: driver.String, Str: text}, nil
	case '-':
		return driver.Reply{Kind: driver.Failure, Str: text}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return driver.Reply{}, errProtocol
	}
	switch {
	case kind == ':':
		return driver.Reply{Kind: driver.Integer, Int: n}, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return driver.Reply{Kind: driver.Nil}, nil
	case kind == '$' && n >= 0 && n <= maxBulk:
		return readBulk(r, int(n))
	case kind == '*' && n >= 0 && n <= maxBulk:
		return readArray(r, int(n))
	}
	return driver.Reply{}, errProtocol
}

// maxBulk is Redis's own limit.
const maxBulk = 512 << 20

func readBulk(r *bufio.Reader, n int) (driver.Reply, error) {
	var text strings.Builder // grows with what arrives, not with what was announced
	if _, err := io.CopyN(&text, r, int64(n)); err != nil {
		return driver.Reply{}, noEOF(err)
	}
	var end [2]byte
	if _, err := io.ReadFull(r, end[:]); err != nil {
		return driver.Reply{}, noEOF(err)
	}
	if end != [2]byte{'\r', '\n'} {
		return driver.Reply{}, errProtocol
	}
	return driver.Reply{Kind: driver.String, Str: text.String()}, nil
}

func readArray(r *bufio.Reader, n int) (driver.Reply, error) {
	reply := driver.Reply{Kind: driver.Array}
	for range n {
		elem, err := readReply(r)
		if err != nil {
			return driver.Reply{}, noEOF(err)
		}
		reply.Elems = append(reply.Elems, elem)
	}
	return reply, nil
}

// noEOF tells an end in the middle of a reply from one between replies.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
