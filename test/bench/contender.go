package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	ourgoredis "github.com/quorumlock/quorumlock/driver/goredis"
	ourredigo "github.com/quorumlock/quorumlock/driver/redigo"
	ourrueidis "github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/redlock"
)

// ttl is the lease that all contenders ask for: redsync's default.
const ttl = 8 * time.Second

// Contender is a lock library over one client, in one of its modes.
type Contender struct {
	Library string // redlock (ours) or redsync
	Client  string // go-redis, redigo or rueidis
	Mode    string // empty: the library's usual one

	// Open connects it to the nodes, in the way that its users would for a load of
	// so many goroutines.
	Open func(addrs []string, setup Setup) Session
}

// Setup is what an opened contender has to cope with. CallTimeout is for libraries that leave it to
// their caller to bound a call: 0 gives none, which is fastest, and hangs where a node does.
type Setup struct {
	Goroutines  int
	TTL         time.Duration // 0 for ttl
	CallTimeout time.Duration
	Options     []redlock.Option // further ones of ours
}

// Session is a contender that is connected to nodes. It is safe for concurrent use.
type Session interface {
	// Lock tries once to lock the key.
	Lock(ctx context.Context, key string) (Hold, error)
	// Wait locks the key, and waits until it is free or ctx ends.
	Wait(ctx context.Context, key string) (Hold, error)
	// Close ends the session and its clients.
	Close() error
}

// Hold is a lock that is held.
type Hold interface {
	Release() error
}

func (c Contender) Name() string {
	return strings.Join(slices.DeleteFunc([]string{c.Library, c.Client, c.Mode}, func(s string) bool { return s == "" }), " ")
}

func (c Contender) ours() bool { return c.Library == "redlock" }

// failFast reports whether it comes back at the deciding reply, rather than at the
// last one.
func (c Contender) failFast() bool { return c.ours() || strings.Contains(c.Mode, failFast) }

// polls reports whether it differs from another one in nothing but how it waits.
func (c Contender) polls() bool { return c.Mode == polling }

// waits reports whether it takes part where locks are waited for: ours, and redsync
// with either delay. It is redsync's usual mode, for under contention fail-fast leaves
// keys behind: what it does not wait for may set a key after it was released.
func (c Contender) waits() bool {
	return c.ours() || c.polls() || c.Mode == "" && slices.Contains(polled, c.Client)
}

// The modes of redsync. Its auto-pipeline is go-redis's, below it.
const (
	failFast     = "fail-fast"
	autoPipeline = "auto-pipeline"
	polling      = "polling 1-5 ms" // its default is 50 to 250 ms
)

// clients are all of them, and polled are those over which redsync takes part where locks are waited for.
var clients, polled = []string{"go-redis", "redigo", "rueidis"}, []string{"go-redis", "rueidis"}

// contenders are all of them, in the order of the tables and the turns.
func contenders() []Contender {
	return slices.Concat(redlocks(), redsyncs())
}

// everybody is they, those who give permits, take sets, take turns or are beside others, and the
// floor.
func everybody() []Contender {
	return slices.Concat(contenders(), permitters(), setTakers(), besides(), []Contender{inTurn(), bare})
}

func ours(all []Contender) []Contender {
	return slices.DeleteFunc(slices.Clone(all), func(c Contender) bool { return !c.ours() })
}

// find returns the contender of that name: names are written in this program.
func find(library, client, mode string) Contender {
	all := contenders()
	return all[slices.IndexFunc(all, func(c Contender) bool { return c.Library == library && c.Client == client && c.Mode == mode })]
}

// named is the contender of that name.
func named(name string) Contender {
	all := everybody()
	i := slices.IndexFunc(all, func(c Contender) bool { return c.Name() == name })
	if i < 0 {
		check(fmt.Errorf("no contender is called %q", name))
	}
	return all[i]
}

// redlocks is our library over each client, made with its own library's defaults.
func redlocks() []Contender {
	return []Contender{
		over("go-redis", func(addr string) *goredis.Client { return goredis.NewClient(&goredis.Options{Addr: addr}) }, ourgoredis.Nodes, closing),
		over("redigo", func(addr string) *redigo.Pool {
			return &redigo.Pool{MaxIdle: 10, Dial: func() (redigo.Conn, error) { return redigo.Dial("tcp", addr) }}
		}, ourredigo.Nodes, closing),
		over("rueidis", openRueidis, ourrueidis.Nodes, rueidis.Client.Close),
	}
}

func openRueidis(addr string) rueidis.Client {
	return must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}))
}

func closing[C io.Closer](client C) { _ = client.Close() }

// over is our library over clients that are made and closed so.
func over[C any](name string, dial func(addr string) C, nodes func(...C) ([]driver.Node, error), end func(C)) Contender {
	return Contender{Library: "redlock", Client: name, Open: func(addrs []string, setup Setup) Session {
		var clients []C
		for _, addr := range addrs {
			clients = append(clients, dial(addr))
		}
		options := append([]redlock.Option{redlock.WithTTL(cmp.Or(setup.TTL, ttl))}, setup.Options...)
		return &redlockSession{must(redlock.New(must(nodes(clients...)), options...)), takeOne, func() {
			for _, client := range clients {
				end(client)
			}
		}}
	}}
}

type redlockSession struct {
	locker *redlock.Locker
	take   take // in place of Acquire
	close  func()
}

type take func(ctx context.Context, locker *redlock.Locker, key string) (Hold, error)

func takeOne(ctx context.Context, locker *redlock.Locker, key string) (Hold, error) {
	return held(locker.Acquire(ctx, key))
}

func (s *redlockSession) Lock(ctx context.Context, key string) (Hold, error) {
	return held(s.locker.TryAcquire(ctx, key))
}

func (s *redlockSession) Wait(ctx context.Context, key string) (Hold, error) {
	return s.take(ctx, s.locker, key)
}

func (s *redlockSession) Close() error {
	defer s.close()
	return s.locker.Close()
}

// held is what was taken: no Hold with a nil lock in it.
func held[H Hold](hold H, err error) (Hold, error) {
	if err != nil {
		return nil, err
	}
	return hold, nil
}

// variant is ours in a mode in which take takes the place of Acquire.
func variant(c Contender, mode string, take take, options ...redlock.Option) Contender {
	open := c.Open
	c.Mode = mode
	c.Open = func(addrs []string, setup Setup) Session {
		setup.Options = append(setup.Options, options...)
		session := open(addrs, setup).(*redlockSession)
		session.take = take
		return session
	}
	return c
}
