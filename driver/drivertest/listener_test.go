package drivertest

import (
	"context"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// listener is a subscription that keeps the contract.
type listener struct {
	*resp.Session
	conn *wire
}

func (p *pool) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	l, err := p.listen(ctx, onNotice)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p *pool) listen(ctx context.Context, onNotice func(driver.Notice)) (*listener, error) {
	w, err := dial(ctx, p.addr)
	if err != nil {
		return nil, err
	}
	return &listener{resp.NewSession(context.WithoutCancel(ctx), "pool", w, onNotice), w}, nil
}
