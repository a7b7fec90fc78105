package drivertest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
)

func repeatsRefused(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if slices.ContainsFunc(replies, func(r driver.Reply) bool { return strings.HasPrefix(r.Str, "LOADING ") }) {
			return p.Do(ctx, cmds)
		}
		return replies, err
	})
}

func reorders(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		cmds = slices.Clone(cmds)
		slices.Reverse(cmds)
		replies, err := p.Do(ctx, cmds)
		slices.Reverse(replies)
		return replies, err
	})
}

func reordersReplies(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		slices.Reverse(replies)
		return replies, err
	})
}

func splits(p *pool) driver.Driver {
	other := &pool{addr: p.addr}
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		defer func() { _ = other.Close() }()
		half := len(cmds) / 2
		replies, err := p.Do(ctx, cmds[:half])
		if err != nil {
			return replies, err
		}
		more, err := other.Do(ctx, cmds[half:])
		return append(replies, more...), err
	})
}

func failsOnRefusal(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		for _, r := range replies {
			err = errors.Join(err, r.Err())
		}
		return replies, err
	})
}

func dropsReplies(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if err != nil {
			return nil, err
		}
		return replies, nil
	})
}

func padsReplies(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		return append(replies, make([]driver.Reply, len(cmds)-len(replies))...), err
	})
}

// changed is a driver that changes the replies.
func changed(p *pool, change func(r *driver.Reply)) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		for i := range replies {
			change(&replies[i])
		}
		return replies, err
	})
}

func roundsIntegers(p *pool) driver.Driver {
	return changed(p, func(r *driver.Reply) { r.Int = int64(float64(r.Int)) })
}

func losesNil(p *pool) driver.Driver {
	return changed(p, func(r *driver.Reply) {
		if r.Kind == driver.Nil {
			r.Kind = driver.String
		}
	})
}

func trimsValues(p *pool) driver.Driver {
	return changed(p, func(r *driver.Reply) { r.Str = strings.TrimSpace(r.Str) })
}

func hidesLastWord(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if err != nil && len(replies) == 1 && replies[0].Kind == driver.Failure {
			return nil, io.EOF
		}
		return replies, err
	})
}

func hidesRefusal(p *pool) driver.Driver {
	return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if err == nil && replies[0].Kind == driver.Failure {
			return nil, errors.New("cannot connect")
		}
		return replies, err
	})
}
