package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/rueidis"
)

// rueidisPool lets redsync run over rueidis. redsync has an adapter of its own, over
// rueidiscompat, a module that module proxies do not all serve; this one is thinner.
type rueidisPool struct{ client rueidis.Client }

func (p rueidisPool) Get(ctx context.Context) (redsyncpool.Conn, error) {
	return rueidisConn{p.client, ctx}, nil
}

// rueidisConn is one call: that its context lives in it is redsync's contract.
type rueidisConn struct {
	client rueidis.Client
	ctx    context.Context //nolint:containedctx // redsync's Conn takes none
}

var _ redsyncpool.Conn = rueidisConn{}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	err := c.client.Do(c.ctx, c.client.B().Set().Key(name).Value(value).Nx().PxMilliseconds(expiry.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (c rueidisConn) Eval(script *redsyncpool.Script, keysAndArgs ...any) (any, error) {
	texts := make([]string, len(keysAndArgs))
	for i, arg := range keysAndArgs {
		if text, ok := arg.(string); ok {
			texts[i] = text
		} else {
			texts[i] = fmt.Sprint(arg)
		}
	}
	keys, args := texts[:script.KeyCount], texts[script.KeyCount:]
	count := int64(script.KeyCount)
	reply, err := c.client.Do(c.ctx, c.client.B().Evalsha().Sha1(script.Hash).Numkeys(count).Key(keys...).Arg(args...).Build()).ToAny()
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply, err = c.client.Do(c.ctx, c.client.B().Eval().Script(script.Src).Numkeys(count).Key(keys...).Arg(args...).Build()).ToAny()
	}
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return reply, err
}

func (c rueidisConn) Get(name string) (string, error) {
	value, err := c.client.Do(c.ctx, c.client.B().Get().Key(name).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return value, err
}

func (c rueidisConn) Set(name, value string) (bool, error) {
	err := c.client.Do(c.ctx, c.client.B().Set().Key(name).Value(value).Build()).Error()
	return err == nil, err
}

func (c rueidisConn) PTTL(name string) (time.Duration, error) {
	left, err := c.client.Do(c.ctx, c.client.B().Pttl().Key(name).Build()).AsInt64()
	return time.Duration(left) * time.Millisecond, err
}

func (c rueidisConn) ScriptLoad(script *redsyncpool.Script) error {
	hash, err := c.client.Do(c.ctx, c.client.B().ScriptLoad().Script(script.Src).Build()).ToString()
	if err == nil {
		script.Hash = hash
	}
	return err
}

func (rueidisConn) Close() error { return nil }

type rueidisCloser struct{ client rueidis.Client }

func (c rueidisCloser) Close() error {
	c.client.Close()
	return nil
}
