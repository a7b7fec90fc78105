package main

import (
	"context"
	_ "embed"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/fence"
)

// Redis runs one script at a time, so the comparison and the write are one transaction.
//
//go:embed write.lua
var writeLua string

var writeScript = redis.NewScript(writeLua)

// inRedis is an account in a hash with the fields balance and fence.
type inRedis struct {
	client *redis.Client
	key    string
}

func openRedis(url, key string) (store, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return inRedis{redis.NewClient(options), key}, nil
}

func (s inRedis) create(ctx context.Context, balance int) error {
	return s.client.HSet(ctx, s.key, "balance", balance, "fence", 0).Err()
}

func (s inRedis) balance(ctx context.Context) (int, error) {
	return s.client.HGet(ctx, s.key, "balance").Int()
}

func (s inRedis) read(ctx context.Context, fence int64) (int, error) {
	return s.show(ctx, fence)
}

func (s inRedis) write(ctx context.Context, balance int, fence int64) error {
	_, err := s.show(ctx, fence, balance)
	return err
}

// show shows the fence, and sets the balance if one is given. It returns the balance.
func (s inRedis) show(ctx context.Context, offered int64, set ...any) (int, error) {
	account, err := writeScript.Run(ctx, s.client, []string{s.key}, append([]any{offered}, set...)...).StringSlice()
	if err != nil {
		return 0, err
	}
	last, err := strconv.ParseInt(account[1], 10, 64)
	if err != nil {
		return 0, err
	}
	if last > offered {
		return 0, &fence.StaleError{Last: last, Offered: offered}
	}
	return strconv.Atoi(account[0])
}

func (s inRedis) remove(ctx context.Context) error { return s.client.Del(ctx, s.key).Err() }

func (s inRedis) Close() error { return s.client.Close() }
