package main

import (
	"context"
	"errors"
	"io"

	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	ourgoredis "github.com/quorumlock/quorumlock/driver/goredis"
	ourredigo "github.com/quorumlock/quorumlock/driver/redigo"
	ourrueidis "github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/redlock"
)

// redlocks is our library over each client, made with its own library's defaults.
func redlocks() []Contender {
	return []Contender{
		{Library: "redlock", Client: "go-redis", Open: overGoredis},
		{Library: "redlock", Client: "redigo", Open: overRedigo},
		{Library: "redlock", Client: "rueidis", Open: overRueidis},
	}
}

func overGoredis(addrs []string, setup Setup) (Session, error) {
	clients, owned := make([]goredis.UniversalClient, len(addrs)), make(closers, len(addrs))
	for i, addr := range addrs {
		clients[i] = goredis.NewClient(&goredis.Options{Addr: addr})
		owned[i] = clients[i]
	}
	nodes, err := ourgoredis.Nodes(clients...)
	return newRedlockSession(nodes, err, owned, setup)
}

func overRedigo(addrs []string, setup Setup) (Session, error) {
	pools, owned := make([]*redigo.Pool, len(addrs)), make(closers, len(addrs))
	for i, addr := range addrs {
		pools[i] = &redigo.Pool{
			MaxIdle: 10,
			Dial:    func() (redigo.Conn, error) { return redigo.Dial("tcp", addr) },
		}
		owned[i] = pools[i]
	}
	nodes, err := ourredigo.Nodes(pools...)
	return newRedlockSession(nodes, err, owned, setup)
}

func overRueidis(addrs []string, setup Setup) (Session, error) {
	clients, owned := make([]rueidis.Client, len(addrs)), make(closers, len(addrs))
	for i, addr := range addrs {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true})
		if err != nil {
			return nil, errors.Join(err, owned[:i].Close())
		}
		clients[i], owned[i] = client, rueidisCloser{client}
	}
	nodes, err := ourrueidis.Nodes(clients...)
	return newRedlockSession(nodes, err, owned, setup)
}

type redlockSession struct {
	locker  *redlock.Locker
	clients io.Closer
}

func newRedlockSession(nodes []driver.Node, err error, clients io.Closer, setup Setup) (Session, error) {
	if err != nil {
		return nil, errors.Join(err, clients.Close())
	}
	options := append([]redlock.Option{redlock.WithTTL(setup.TTL)}, setup.Options...)
	if setup.Renewed {
		options = append(options, redlock.WithRenewal())
	}
	locker, err := redlock.New(nodes, options...)
	if err != nil {
		return nil, errors.Join(err, clients.Close())
	}
	return &redlockSession{locker, clients}, nil
}

func (s *redlockSession) Lock(ctx context.Context, key string) (Hold, error) {
	lock, err := s.locker.TryAcquire(ctx, key)
	if err != nil {
		return nil, err // and not a Hold with a nil lock in it
	}
	return lock, nil
}

func (s *redlockSession) Wait(ctx context.Context, key string) (Hold, error) {
	lock, err := s.locker.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (s *redlockSession) Close() error {
	return errors.Join(s.locker.Close(), s.clients.Close())
}
