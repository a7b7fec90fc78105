package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	Open func(addrs []string, setup Setup) (Session, error)
}

// Setup is what an opened contender has to cope with.
type Setup struct {
	Goroutines int
	TTL        time.Duration

	// CallTimeout is for libraries that leave it to their caller to bound a call: 0
	// gives none, which is fastest, and hangs where a node does.
	CallTimeout time.Duration

	// Renewed asks for holds that renew their leases, which only ours do.
	Renewed bool

	// Options are further ones of ours.
	Options []redlock.Option
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
	Release(ctx context.Context) error
}

// Name is how tables and other cases call the contender.
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

// polled are the clients over which redsync takes part where locks are waited for.
var polled = []string{"go-redis", "rueidis"}

// quiet makes go-redis keep to itself that nodes are gone, which it otherwise writes
// to stderr.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// contenders are all of them, in the order of the tables and the turns.
func contenders() []Contender {
	return slices.Concat(redlocks(), redsyncs())
}

// everybody is they, those who give permits, take sets, take turns or have hooks, and the floor.
func everybody() []Contender {
	return slices.Concat(contenders(), permitters(), setTakers(), hooked(), []Contender{inTurn(), bare})
}

// find returns the contender of that name. It panics where there is none: names are
// written in this program.
func find(library, client, mode string) Contender {
	for _, c := range contenders() {
		if c.Library == library && c.Client == client && c.Mode == mode {
			return c
		}
	}
	panic(fmt.Sprintf("no contender %s %s %s", library, client, mode))
}
