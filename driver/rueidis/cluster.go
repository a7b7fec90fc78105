package rueidis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// A cluster sends commands to the masters that have their keys.
//
// rueidis's own routing sends a command again after MOVED and ASK. So the commands of one batch
// would run at two servers, and one that was sent first after the others: while a slot moves, a
// fence could follow a greater one. A connection that is dedicated follows nothing.
type cluster struct {
	link   *link
	shards atomic.Pointer[[]shard] // by their slots; nil: not known, or out of date
}

// A shard is a range of slots, and who serves it.
type shard struct {
	first, last int64
	master      string
}

// keyless is the key whose master gets the batches without a key: always the same one, so that the
// node's identity does not change from call to call.
const keyless = "quorumlock"

// do sends each master its share, all at once.
func (c *cluster) do(ctx context.Context, cmds []driver.Command) ([]rueidis.RedisResult, error) {
	results := make([]rueidis.RedisResult, len(cmds))
	shares := c.split(ctx, cmds)
	failed := make(chan error, len(shares))
	for master, share := range shares {
		go func() { failed <- c.send(ctx, cmds, master, share, results) }()
	}
	var err error
	for range shares {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return nil, err
	}
	for _, result := range results {
		if strayed(result.Error()) {
			c.shards.Store(nil)
			break
		}
	}
	return results, nil
}

// A share is what goes to one master.
type share struct {
	key   string // one that it has
	known bool   // which master it is; else the share is that of a slot
	at    []int  // the commands
}

// split finds the share of each master. A command without keys goes where the one before it goes, so
// that a batch about one key stays on one connection. Where a slot has just moved, shares are those of
// before: the server says so.
func (c *cluster) split(ctx context.Context, cmds []driver.Command) map[string]*share {
	shards := c.shards.Load()
	if shards == nil {
		shards = c.look(ctx)
	}
	shares := make(map[string]*share, 1)
	key, master, known := keyless, "", false
	for _, cmd := range cmds {
		if cmd.Keys > 0 {
			key = cmd.Args[cmd.FirstKey].(string)
			break
		}
	}
	for i, cmd := range cmds {
		if cmd.Keys > 0 {
			if at := cmd.Args[cmd.FirstKey].(string); at != key {
				key, master = at, ""
			}
		}
		if master == "" {
			master, known = c.master(*shards, key)
		}
		if shares[master] == nil {
			shares[master] = &share{key: key, known: known}
		}
		shares[master].at = append(shares[master].at, i)
	}
	return shares
}

// send sends a master its share, on a connection that is the share's own meanwhile. The link does not
// keep one to an unknown master: there would be one for each slot.
func (c *cluster) send(ctx context.Context, cmds []driver.Command, master string, share *share, results []rueidis.RedisResult) (err error) {
	defer driver.CatchPanic(&err) // of a hook
	c.link.alone(master, share.known, func(s *spare) []rueidis.RedisResult {
		batch := make([]rueidis.Completed, len(share.at))
		for i, at := range share.at {
			batch[i] = write(s.wire.B(), cmds[at], false)
		}
		if !s.bound {
			batch[0] = batch[0].SetSlot(share.key) // the others go with it
			s.bound = true
		}
		answered := s.wire.DoMulti(&call{Context: ctx}, batch...) //nolint:contextcheck // it is ctx
		for i, result := range answered {
			results[share.at[i]] = result
		}
		return answered
	})
	return nil
}

// master names the server that has a key; where that is not known, the key's slot.
func (c *cluster) master(shards []shard, key string) (name string, known bool) {
	about := c.link.client.B().Arbitrary("GET").Keys(key).Build() // rueidis panics where a command's first word is empty
	slot := int64(about.Slot())
	i := sort.Search(len(shards), func(i int) bool { return shards[i].last >= slot })
	if i == len(shards) || shards[i].first > slot {
		return strconv.FormatInt(slot, 10), false
	}
	return shards[i].master, true
}

// look asks which slots each master has: several slots of one share a connection then.
func (c *cluster) look(ctx context.Context) *[]shard {
	all := &[]shard{}
	ranges, err := c.link.client.Do(ctx, c.link.client.B().Arbitrary("CLUSTER", "SLOTS").Build()).ToArray()
	for _, r := range ranges {
		if parts, err := r.ToArray(); err == nil && len(parts) > 2 {
			first, _ := parts[0].AsInt64()
			last, _ := parts[1].AsInt64()
			*all = append(*all, shard{first, last, parts[2].String()})
		}
	}
	if err == nil {
		slices.SortFunc(*all, func(a, b shard) int { return cmp.Compare(a.first, b.first) })
		c.shards.Store(all)
	}
	return all
}

// strayed reports whether the shards may not be those that are known any more.
func strayed(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	if !ok {
		return err != nil && !rueidis.IsRedisNil(err)
	}
	_, moved := refused.IsMoved()
	_, asks := refused.IsAsk()
	return moved || asks || refused.IsClusterDown()
}
