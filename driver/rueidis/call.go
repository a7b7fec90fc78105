package rueidis

import (
	"context"
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
		c.batch = append(c.batch, write(wire.B(), cmds[i], false))
	}
	return c
}

// Deadline hides the deadline of the caller's context.
func (*call) Deadline() (time.Time, bool) {
	return time.Time{}, false
}

func (c *call) send(wire rueidis.DedicatedClient) (_ []rueidis.RedisResult, err error) {
	defer driver.CatchPanic(&err) // of a hook
	if len(c.batch) == 1 {        // saves what DoMulti allocates
		c.only[0] = wire.Do(c, c.batch[0])
		return c.only[:], nil
	}
	return wire.DoMulti(c, c.batch...), nil
}

// recycle keeps the call's memory for another one. Only a call that was answered
// completely may be recycled: of any other, rueidis may still be writing the batch.
func (c *call) recycle() {
	*c = call{batch: c.batch[:0]}
	calls.Put(c)
}

// write builds a command. rueidis takes one that is built this way for a write, and
// those it sends once. One that blocks goes to a connection of its own.
func write(b rueidis.Builder, cmd driver.Command, blocks bool) rueidis.Completed {
	session := b.Arbitrary()
	for _, arg := range cmd.Args {
		session = session.Args(arg.(string))
	}
	if blocks {
		return session.Blocking()
	}
	return session.Build()
}
