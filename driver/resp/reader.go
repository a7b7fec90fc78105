package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/internal/framing"
)

// Reader reads commands or replies, within the bounds of [driver.Conn]: strings of 4 MiB, lines
// of 64 KiB, arrays of 65,536 elements and 32 levels. It takes memory only for what arrives.
// Its errors match [driver.ErrProtocol] where the stream leaves the protocol, and
// [io.ErrUnexpectedEOF] where it ends within a frame. It is not safe for concurrent use.
type Reader struct {
	in     *bufio.Reader
	frames *framing.Scanner
	raw    []byte
}

// NewReader returns a Reader of in. Between two calls it has taken from in what it returned,
// and no more.
func NewReader(in *bufio.Reader) *Reader {
	return &Reader{in: in, frames: framing.NewScanner()}
}

// Reply reads one reply.
func (r *Reader) Reply() (driver.Reply, error) {
	if err := r.frame(); err != nil {
		return driver.Reply{}, err
	}
	reply, _, err := Decode(r.raw)
	return reply, err
}

// Command reads one command: an array of bulk strings, as clients send it.
func (r *Reader) Command() ([]string, error) {
	array, err := r.Reply()
	if err != nil {
		return nil, err
	}
	args, boxed := make([]string, len(array.Elems)), make([]any, len(array.Elems))
	for i, elem := range array.Elems {
		args[i], boxed[i] = elem.Str, elem.Str
	}
	if !bytes.Equal(appendCommand(nil, boxed), r.raw) {
		return nil, fmt.Errorf("%w: %.40q is no command", driver.ErrProtocol, r.raw)
	}
	return args, nil
}

// keepRaw is the largest frame whose buffer is kept for the next one.
const keepRaw = 64 << 10

// frame reads one frame into raw.
func (r *Reader) frame() error {
	if r.raw = r.raw[:0]; cap(r.raw) > keepRaw {
		r.raw = nil
	}
	for whole := false; !whole; {
		if _, err := r.in.Peek(1); err != nil {
			if len(r.raw) > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		piece, _ := r.in.Peek(r.in.Buffered()) // which waits for nothing
		var n int
		var err error
		if n, whole, err = r.frames.Next(piece); err != nil {
			return fmt.Errorf("%w: %w", driver.ErrProtocol, err)
		}
		r.raw = append(r.raw, piece[:n]...)
		_, _ = r.in.Discard(n) // it is there
	}
	return nil
}
