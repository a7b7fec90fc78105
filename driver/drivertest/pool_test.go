package drivertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// pool is a simple driver that keeps the contract: a free connection, or a new one,
// for each call. What failed is closed, and nothing is left behind.
type pool struct {
	addr string

	mu   sync.Mutex
	idle []*wire
	rest []io.Closer // what a mutant should have closed
}

// wire is one connection. It is a [resp.Wire] as well.
type wire struct {
	net.Conn
	replies *resp.Reader
}

func dial(ctx context.Context, addr string) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, replies: resp.NewReader(bufio.NewReader(conn))}, nil
}

func (w *wire) Send(cmds []driver.Command) error {
	_, err := resp.WriteCommands(w, cmds)
	return err
}

func (w *wire) Receive() (driver.Reply, error) { return w.replies.Reply() }

func (w *wire) Cut() { _ = w.Close() }

func (*wire) Release() {} // Cut has done it

func (p *pool) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	w, err := p.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrNotSent, err)
	}
	replies, err := exchange(ctx, w, cmds)
	if err != nil {
		_ = w.Close()
		return replies, err
	}
	p.give(w)
	return replies, nil
}

// Stranger is another user of the same connections.
func (p *pool) Stranger(ctx context.Context, args ...string) error {
	replies, err := p.Do(ctx, []driver.Command{command(0, 0, args...)})
	if err != nil {
		return err
	}
	return replies[0].Err()
}

func (p *pool) take(ctx context.Context) (*wire, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		w := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return w, nil
	}
	p.mu.Unlock()
	return dial(ctx, p.addr)
}

func (p *pool) give(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, w)
}

// left takes what a mutant leaves behind, until Close.
func (p *pool) left(c io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, c)
}

func (p *pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.rest {
		_ = c.Close()
	}
	for _, w := range p.idle {
		_ = w.Close()
	}
	p.idle = nil
	return nil
}

// exchange sends the commands and reads their replies. A context that ends closes
// the connection, which ends whatever waits on it.
func exchange(ctx context.Context, w *wire, cmds []driver.Command) ([]driver.Reply, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer stop()
	replies, err := send(w, cmds)
	if err != nil && ctx.Err() != nil {
		return replies, ctx.Err()
	}
	return replies, err
}

func send(w *wire, cmds []driver.Command) ([]driver.Reply, error) {
	// Writing stands beside reading: of a large batch the server may have to be rid
	// of the first replies before it takes the last commands.
	written := make(chan error, 1)
	go func() { written <- w.Send(cmds) }()
	var replies []driver.Reply
	for range cmds {
		reply, err := w.Receive()
		if err != nil {
			_ = w.Close()
			return replies, errors.Join(err, <-written)
		}
		replies = append(replies, reply)
	}
	return replies, <-written
}
