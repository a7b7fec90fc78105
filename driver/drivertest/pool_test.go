package drivertest

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// pool is a driver that keeps the contract.
type pool struct {
	*resp.Client
	addr string

	mu   sync.Mutex
	rest []io.Closer // what a mutant should have closed
}

func newPool(addr string) *pool {
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
	return &pool{Client: resp.NewClient("pool", dial), addr: addr}
}

// dial makes a connection that the pool does not have.
func (p *pool) dial(ctx context.Context) (*resp.Conn, error) { return newPool(p.addr).Take(ctx) }

// Stranger is another user of the same connections.
func (p *pool) Stranger(ctx context.Context, args ...string) error {
	replies, err := p.Do(ctx, []driver.Command{keyless(args...)})
	if err != nil {
		return err
	}
	return replies[0].Err()
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
	return p.Client.Close()
}

// listener is a subscription that keeps the contract.
type listener struct {
	*resp.Session
	conn *resp.Conn
}

func (p *pool) listen(ctx context.Context, onNotice func(driver.Notice)) (*listener, error) {
	conn, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &listener{resp.NewSession(context.WithoutCancel(ctx), "pool", conn, onNotice), conn}, nil
}
