package redlocktest

import (
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// requestBuffer is how much a node that does not read lets a client write: about
// what a socket's buffers hold.
const requestBuffer = 256 << 10

// A pipe is a connection in memory, with buffers. net.Pipe has none: there, a client
// that writes its whole batch before it reads waits for a server that waits for its
// first reply to be read, and nothing could lie in wait for a hung node.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
}

// stream is one direction of a pipe.
type stream struct {
	chunks []chunk
	size   int
	limit  int  // 0: none, for a server keeps replies until they are read
	ended  bool // the writer has closed: after the chunks comes the end
	shut   bool // the reader has closed
}

type chunk struct {
	data []byte
	due  time.Time
}

// end is one end of a pipe.
type end struct {
	*pipe
	addr    pipeAddr
	in, out *stream
	delay   func() time.Duration // until what is written can be read

	readUntil, writeUntil deadline
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

// newPipe returns the two ends of a pipe. What the node writes arrives late by what
// delay returns at that moment, and in order.
func newPipe(addr pipeAddr, delay func() time.Duration) (client, node *end) {
	p := &pipe{}
	p.changed = sync.NewCond(&p.mu)
	requests, replies := &stream{limit: requestBuffer}, &stream{}
	none := func() time.Duration { return 0 }
	client = &end{pipe: p, addr: addr, in: replies, out: requests, delay: none}
	node = &end{pipe: p, addr: addr, in: requests, out: replies, delay: delay}
	return client, node
}

func (e *end) Read(buf []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		switch {
		case e.in.shut:
			return 0, net.ErrClosed
		case e.readUntil.passed():
			return 0, os.ErrDeadlineExceeded
		case len(e.in.chunks) > 0 && !time.Now().Before(e.in.chunks[0].due):
			n := e.in.take(buf)
			e.changed.Broadcast() // there is room
			return n, nil
		case len(e.in.chunks) == 0 && e.in.ended:
			return 0, io.EOF
		}
		e.changed.Wait()
	}
}

func (e *end) Write(buf []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	written := 0
	for written < len(buf) {
		switch {
		case e.out.ended:
			return written, net.ErrClosed
		case e.out.shut:
			return written, io.ErrClosedPipe
		case e.writeUntil.passed():
			return written, os.ErrDeadlineExceeded
		case e.out.limit > 0 && e.out.size >= e.out.limit:
			e.changed.Wait()
		default:
			written += e.put(buf[written:])
		}
	}
	return written, nil
}

func (e *end) put(buf []byte) int {
	if e.out.limit > 0 {
		buf = buf[:min(len(buf), e.out.limit-e.out.size)]
	}
	due := time.Now().Add(e.delay())
	if last := len(e.out.chunks) - 1; last >= 0 && due.Before(e.out.chunks[last].due) {
		due = e.out.chunks[last].due // a delay that has shrunk does not reorder
	}
	e.out.chunks = append(e.out.chunks, chunk{slices.Clone(buf), due})
	e.out.size += len(buf)
	e.wakeAt(due)
	return len(buf)
}

func (s *stream) take(buf []byte) int {
	first := &s.chunks[0]
	n := copy(buf, first.data)
	first.data = first.data[n:]
	if len(first.data) == 0 {
		s.chunks = s.chunks[1:]
	}
	s.size -= n
	return n
}

// wakeAt wakes both ends at that time, and at once where it has passed.
func (p *pipe) wakeAt(at time.Time) *time.Timer {
	wait := time.Until(at)
	if wait <= 0 {
		p.changed.Broadcast()
		return nil
	}
	return time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
}

// Close lets the other end read what has been written, and drops what has not been
// read here.
func (e *end) Close() error {
	_ = e.SetDeadline(time.Time{}) // stops the timers
	e.mu.Lock()
	defer e.mu.Unlock()
	e.in.shut, e.out.ended = true, true
	e.in.chunks = nil
	e.changed.Broadcast()
	return nil
}

// closeWrite ends the writing alone, as a client does that waits for the last reply.
func (e *end) closeWrite() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out.ended = true
	e.changed.Broadcast()
}

func (e *end) SetDeadline(t time.Time) error {
	_ = e.SetReadDeadline(t) // is always nil
	return e.SetWriteDeadline(t)
}

func (e *end) SetReadDeadline(t time.Time) error  { return e.setDeadline(&e.readUntil, t) }
func (e *end) SetWriteDeadline(t time.Time) error { return e.setDeadline(&e.writeUntil, t) }

func (e *end) setDeadline(d *deadline, t time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = deadline{at: t}
	if !t.IsZero() {
		d.timer = e.wakeAt(t)
	}
	return nil
}

func (d *deadline) passed() bool {
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

func (e *end) LocalAddr() net.Addr  { return e.addr }
func (e *end) RemoteAddr() net.Addr { return e.addr }

// pipeAddr is the node's address, on either end.
type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }
