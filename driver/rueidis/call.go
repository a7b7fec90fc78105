package rueidis

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// call is one batch on its way, and the context that rueidis sees for it. That one ends
// with the caller's but shows no deadline: with a deadline rueidis writes and
// reads on the caller's goroutine, takes no notice of a cancel, and closes the
// connection when time is up; without, it queues the batch and waits for whichever
// comes first, the reply or the end of the context.
type call struct {
	context.Context //nolint:containedctx // it is the context of this one call

	batch []rueidis.Completed
	only  [1]rueidis.RedisResult
}

var calls = sync.Pool{New: func() any { return new(call) }}

func newCall(ctx context.Context, wire rueidis.DedicatedClient, cmds []driver.Command) *call {
	c := calls.Get().(*call)
	c.Context = ctx
	for i := range cmds {
		c.batch = append(c.batch, write(wire.B(), cmds[i]))
	}
	return c
}

// Deadline hides the deadline of the caller's context.
func (*call) Deadline() (time.Time, bool) {
	return time.Time{}, false
}

func (c *call) send(wire rueidis.DedicatedClient) []rueidis.RedisResult {
	if len(c.batch) == 1 { // saves what DoMulti allocates
		c.only[0] = wire.Do(c, c.batch[0])
		return c.only[:]
	}
	return wire.DoMulti(c, c.batch...)
}

// recycle keeps the call's memory for another one. Only a call that was answered
// completely may be recycled: of any other, rueidis may still be writing the batch.
func (c *call) recycle() {
	*c = call{batch: c.batch[:0]}
	calls.Put(c)
}

// write builds a command. rueidis takes one that is built this way for a write, and
// those it sends once.
func write(b rueidis.Builder, cmd driver.Command) rueidis.Completed {
	session := b.Arbitrary()
	for _, arg := range cmd.Args {
		session = session.Args(arg.(string))
	}
	return session.Build()
}

// aside builds a command that goes to the shard of its first key on a Cluster. That key alone
// decides: rueidis panics over keys of several slots, where the server says CROSSSLOT.
func aside(b rueidis.Builder, cmd driver.Command, blocks bool) rueidis.Completed {
	session := b.Arbitrary()
	for i, arg := range cmd.Args {
		if cmd.Keys > 0 && i == cmd.FirstKey {
			session = session.Keys(arg.(string))
		} else {
			session = session.Args(arg.(string))
		}
	}
	if blocks {
		return session.Blocking()
	}
	return session.Build()
}

// asideBatch builds cmds for [Driver.aside]. Those that block go to a connection of their own. On a
// Cluster none may, and none has to (redlock refuses durable votes there): rueidis 1.0.79 panics
// when a server answers ASK to such a batch, for it takes its own ASKING for one of the commands.
func asideBatch(client rueidis.Client, cmds []driver.Command) []rueidis.Completed {
	blocks := client.Mode() != rueidis.ClientModeCluster
	batch := make([]rueidis.Completed, len(cmds))
	keyed := slices.IndexFunc(cmds, func(cmd driver.Command) bool { return cmd.Keys > 0 })
	for i, cmd := range cmds {
		batch[i] = aside(client.B(), cmd, blocks)
		if cmd.Keys == 0 && keyed >= 0 {
			// rueidis panics over a batch that has keys of several slots and a command
			// without a key; so that one goes where another's key goes.
			batch[i] = batch[i].SetSlot(cmds[keyed].Args[cmds[keyed].FirstKey].(string))
		}
	}
	return batch
}
