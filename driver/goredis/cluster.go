package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
)

// cluster routes each command to the master that has its keys.
//
// go-redis's own routing sends again: after MOVED and ASK, and when a connection
// cannot be had, whatever the command says of retries. So its cluster client is
// asked only who the master is, and the masters are servers like any other.
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

// lookup is the first look at the cluster's map, off the callers' goroutines.
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
	_, err := c.masters.MasterForKey(ctx, keyless)
	c.mu.Lock()
	c.known, c.lookup = err == nil, nil
	c.mu.Unlock()
	l.err = refusal(err)
	close(l.done)
}

// keyless is the key whose master gets the batches that name none: always the same
// one, so that what a node says of itself does not change from call to call.
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
func (c *cluster) subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	if err := c.know(ctx); err != nil {
		return nil, err
	}
	var sub driver.Subscription
	homes, err := c.route(ctx, []driver.Command{{}})
	if err == nil {
		sub, err = homes[0].subscribe(ctx, hear)
	}
	if err != nil {
		c.masters.ReloadState(ctx)
	}
	return sub, err
}

// split returns the commands, by index, of each server.
func split(homes []*server) map[*server][]int {
	shares := make(map[*server][]int, 1)
	for i, home := range homes {
		shares[home] = append(shares[home], i)
	}
	return shares
}

// scatter sends each server its share, all at once. What comes back is cut at the
// first command without a reply, for replies are in order or not known.
func (c *cluster) scatter(ctx context.Context, cmds []driver.Command, shares map[*server][]int) ([]driver.Reply, error) {
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex
		replies = make([]driver.Reply, len(cmds))
		arrived = make([]bool, len(cmds))
		failed  []error
	)
	for home, share := range shares {
		wait.Go(func() {
			part := make([]driver.Command, len(share))
			for i, at := range share {
				part[i] = cmds[at]
			}
			got, err := home.do(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			for i, reply := range got {
				replies[share[i]], arrived[share[i]] = reply, true
			}
			if err != nil {
				failed = append(failed, err)
			}
		})
	}
	wait.Wait()

	for i, ok := range arrived {
		if !ok {
			replies = replies[:i]
			break
		}
	}
	if len(failed) == 0 {
		return replies, nil
	}
	// That nothing has left may be said only where it is so of every master; how the
	// context ended, where it is so of any.
	unsent := len(failed) == len(shares) &&
		!slices.ContainsFunc(failed, func(err error) bool { return !errors.Is(err, driver.ErrNotSent) })
	all, why := errors.Join(failed...), failed[0]
	switch {
	case errors.Is(all, context.DeadlineExceeded):
		why = context.DeadlineExceeded
	case errors.Is(all, context.Canceled):
		why = context.Canceled
	case !unsent && errors.Is(why, driver.ErrNotSent):
		why = errors.New(why.Error())
	}
	err := fmt.Errorf("%d of %d masters of the cluster: %w", len(failed), len(shares), why)
	if unsent {
		err = driver.NotSent(err)
	}
	return replies, err
}

// strayed reports whether a reply says that the map of the cluster is old.
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
