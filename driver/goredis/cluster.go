package goredis

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
)

// cluster routes each command to the master that has its keys.
//
// go-redis's own routing sends again: after MOVED and ASK, and when it gets no connection,
// even where a command forbids retries. So its cluster client only names the master, and the
// masters are servers like any other.
type cluster struct {
	masters *redis.ClusterClient
	hooks   []redis.Hook
	life    context.Context //nolint:containedctx // ends at close, and a lookup with it
	end     context.CancelFunc
	looking sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	known   bool    // there is a map of the cluster
	lookup  *lookup // under way, while there is none
	servers map[string]*server
}

// lookup is the first query for the cluster's map, on a goroutine of its own.
type lookup struct {
	done chan struct{}
	err  error
}

func newCluster(options *redis.ClusterOptions, hooks []redis.Hook) *cluster {
	c := &cluster{masters: redis.NewClusterClient(options), hooks: hooks, servers: make(map[string]*server)}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

func (c *cluster) do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if err := c.know(ctx); err != nil {
		return nil, driver.NotSent(err)
	}
	homes, err := c.route(ctx, cmds)
	if err != nil {
		c.masters.ReloadState(ctx) // returns at once
		return nil, driver.NotSent(err)
	}
	var replies []driver.Reply
	if shares := split(homes); len(shares) == 1 {
		replies, err = homes[0].do(ctx, cmds)
	} else {
		replies, err = c.scatter(ctx, cmds, shares)
	}
	if err != nil || strayed(replies) {
		c.masters.ReloadState(ctx)
	}
	return replies, err
}

// know waits until there is a map of the cluster.
func (c *cluster) know(ctx context.Context) error {
	c.mu.Lock()
	if c.known || c.closed {
		defer c.mu.Unlock()
		if c.closed {
			return errClosed
		}
		return nil
	}
	l := c.lookup
	if l == nil {
		l = &lookup{done: make(chan struct{})}
		c.lookup = l
		c.looking.Go(func() { c.look(l) }) //nolint:contextcheck // it is for all that wait, not for this one
	}
	c.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *cluster) look(l *lookup) {
	ctx, cancel := context.WithTimeout(c.life, c.masters.Options().DialTimeout)
	defer cancel()
	err := c.ask(ctx)
	c.mu.Lock()
	c.known, c.lookup = err == nil, nil
	c.mu.Unlock()
	l.err = refusal(err)
	close(l.done)
}

func (c *cluster) ask(ctx context.Context) (err error) {
	defer driver.CatchPanic(&err)
	_, err = c.masters.MasterForKey(ctx, keyless)
	return err
}

// keyless is the key whose master gets the batches without a key: always the same one, so
// that the node's identity does not change from call to call.
const keyless = "quorumlock"

// route returns the server of each command. One without keys goes where the one
// before it goes, so that a batch about one key stays on one connection.
func (c *cluster) route(ctx context.Context, cmds []driver.Command) ([]*server, error) {
	homes := make([]*server, len(cmds))
	key := keyless
	for _, cmd := range cmds {
		if cmd.Keys > 0 {
			key = cmd.Args[cmd.FirstKey].(string)
			break
		}
	}
	for i, cmd := range cmds {
		if cmd.Keys > 0 {
			key = cmd.Args[cmd.FirstKey].(string)
		}
		master, err := c.masters.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		if homes[i], err = c.server(master); err != nil {
			return nil, err
		}
	}
	return homes, nil
}

func (c *cluster) server(master *redis.Client) (*server, error) {
	options := master.Options()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	s := c.servers[options.Addr]
	if s == nil {
		s = newServer(mend(options), c.hooks)
		c.servers[options.Addr] = s
	}
	return s, nil
}

// subscribe goes to one of the masters: what is published at any of them reaches all.
func (c *cluster) subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	if err := c.know(ctx); err != nil {
		return nil, err
	}
	var sub driver.Subscription
	homes, err := c.route(ctx, []driver.Command{{}})
	if err == nil {
		sub, err = homes[0].subscribe(ctx, onNotice)
	}
	if err != nil {
		c.masters.ReloadState(ctx)
	}
	return sub, err
}

// strayed reports whether a reply shows that the map of the cluster is stale.
func strayed(replies []driver.Reply) bool {
	for _, reply := range replies {
		if reply.Kind != driver.Failure {
			continue
		}
		switch code, _, _ := strings.Cut(reply.Str, " "); code {
		case "MOVED", "ASK", "CLUSTERDOWN", "READONLY":
			return true
		}
	}
	return false
}

func (c *cluster) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.renew()
	}
	if c.known {
		c.masters.ReloadState(c.life) // returns at once
	}
}

func (c *cluster) close() error {
	c.mu.Lock()
	c.closed = true
	servers := c.servers
	c.mu.Unlock()
	c.end()
	err := c.masters.Close()
	for _, s := range servers {
		_ = s.close()
	}
	c.looking.Wait()
	return err
}
