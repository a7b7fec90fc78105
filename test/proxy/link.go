package proxy

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server *net.TCPConn
	once           sync.Once
	ended          chan struct{} // closed by reset
	rest           int           // bytes that replies may still have, or -1; of the replies' goroutine
}

// A chunk is what one read returned. An empty one is the end of the stream.
type chunk struct {
	bytes []byte
	due   time.Time // when it may arrive
}

const (
	chunkSize = 32 << 10
	inFlight  = 1024 // chunks that a delay may hold; more wait in the sender's socket
)

// forward copies both ways until both are done.
func (l *link) forward() {
	var ways sync.WaitGroup
	ways.Go(func() { l.copy(l.server, l.client, Requests) })
	ways.Go(func() { l.copy(l.client, l.server, Replies) })
	ways.Wait()
	_ = l.client.Close()
	_ = l.server.Close()
}

// copy carries one direction: one goroutine reads, so that what comes in is delayed
// from its own arrival, and this one writes when it is due.
func (l *link) copy(to, from *net.TCPConn, way Direction) {
	chunks := make(chan chunk, inFlight)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer close(chunks)
		l.read(from, chunks)
	})
	for c := range chunks {
		if !l.wait(c.due, way) {
			return
		}
		if len(c.bytes) == 0 {
			_ = to.CloseWrite()
			return
		}
		if way == Replies {
			var last bool
			if c.bytes, last = l.truncate(c.bytes); last {
				_, _ = to.Write(c.bytes)
				_ = to.Close() // not a reset, which could overtake the bytes
				l.reset()
				return
			}
		}
		if way == Requests && !l.interrupt(&c) {
			return
		}
		if _, err := to.Write(c.bytes); err != nil {
			l.reset()
			return
		}
	}
}

// interrupt lets the pending interruption happen if the chunk is a batch for it: the chunk
// then has what is left of the batch. It returns false when the link ended.
func (l *link) interrupt(c *chunk) bool {
	ahead, do := l.proxy.interrupted(c.bytes)
	if do == nil {
		return true
	}
	_, err := l.server.Write(c.bytes[:ahead])
	do()
	c.bytes = c.bytes[ahead:]
	if err != nil {
		l.reset()
		return false
	}
	return l.wait(time.Time{}, Requests)
}

func (l *link) read(from *net.TCPConn, chunks chan<- chunk) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		if err != nil && !errors.Is(err, io.EOF) {
			l.reset() // a reset passes through as one
			return
		}
		c := chunk{append([]byte(nil), buffer[:n]...), l.proxy.due(time.Now())}
		select {
		case chunks <- c:
		case <-l.ended:
			return
		}
		if err != nil {
			return
		}
	}
}

// wait returns when way is open and the time is due, and false when the link ended.
func (l *link) wait(due time.Time, way Direction) bool {
	if early := time.Until(due); early > 0 {
		timer := time.NewTimer(early)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.ended:
			return false
		}
	}
	select {
	case <-l.proxy.gate(way):
		return true
	case <-l.ended:
		return false
	}
}

// truncate returns what of a reply may pass, and whether the link ends after it.
func (l *link) truncate(reply []byte) (passes []byte, last bool) {
	if l.rest < 0 {
		l.rest = l.proxy.takeTruncate()
	}
	switch {
	case l.rest < 0:
		return reply, false
	case len(reply) < l.rest:
		l.rest -= len(reply)
		return reply, false
	}
	return reply[:l.rest], true
}

// reset ends the link with a reset on both sides.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.ended)
		abort(l.client)
		abort(l.server)
	})
}

// abort closes a connection so that the other side gets a reset.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
