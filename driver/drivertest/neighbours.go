package drivertest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

var neighbourCases = []testCase{
	{"our deadline is nobody else's", func(tr *trial) { unharmed(tr, keepSilent, short) }},
	{"our deadline at a stopped server is nobody else's", func(tr *trial) { unharmed(tr, stopReading, short) }},
	// A server that reads on shows that the neighbours are on their way.
	{"our cancel is nobody else's", func(tr *trial) { unharmed(tr, keepSilent, time.Minute) }},
	{"our deadline behind a slow stranger is nobody else's", behindStranger},
	{"a command that blocks holds nobody up", blocking},
}

// neighbour is somebody else who uses the driver or its client.
type neighbour struct {
	name string
	send func(ctx context.Context, args ...string) error
}

func (tr *trial) neighbours() []neighbour {
	all := []neighbour{{"another caller", func(ctx context.Context, args ...string) error {
		replies, err := tr.Driver.Do(ctx, []driver.Command{keyed(args[0], args[1], args[2:]...)})
		if err != nil {
			return err
		}
		return replies[0].Err()
	}}}
	if tr.Stranger != nil {
		all = append(all, neighbour{"a stranger on the same client", tr.Stranger})
	}
	return all
}

// crowd is several neighbours with a command each on the way.
type crowd struct {
	keys []string
	all  sync.WaitGroup
}

// start sends four commands of each neighbour. Whoever gets an error fails the case.
func (tr *trial) start(prefix, when string) *crowd {
	c := &crowd{}
	for _, n := range tr.neighbours() {
		for i := range 4 {
			key := prefix + ": " + n.name + " " + strconv.Itoa(i)
			c.keys = append(c.keys, key)
			c.all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := n.send(ctx, "SET", key, "1"); err != nil {
					tr.Errorf("%s got an error of ours, %s: %v", n.name, when, err)
				}
			})
		}
	}
	return c
}

// unharmed gives up a call on a stalled server with neighbours waiting. On a
// connection that they share with us they may have to wait until the server goes on,
// but then they have to be served.
func unharmed(tr *trial, kind faultKind, limit time.Duration) {
	tr.start("before", "before anything happened").all.Wait()
	const key = "given up"
	release := tr.server.fault(key, kind)
	defer release()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ours := make(chan outcome, 1)
	go func() { ours <- tr.call(ctx, keyed("SET", key, "1")) }()
	if !tr.server.await(key) {
		tr.Fatalf("our command never reached the server")
	}
	beside := tr.start("beside", "sent while our call waited for a server that "+kind.String())
	if limit > patience {
		tr.server.await(beside.keys...)
		cancel()
	}
	if out := <-ours; out.err == nil {
		tr.Errorf("a server that %s: Do returned no error", kind)
	}
	release()
	beside.all.Wait()
	tr.start("after", "sent after our call was given up").all.Wait()
	tr.recovers("a call that was given up")
	tr.sentOnce(key)
}

// behindStranger stalls a stranger's command and gives up our call behind it.
func behindStranger(tr *trial) {
	for _, n := range tr.neighbours() {
		key := "slow " + n.name
		release := tr.server.fault(key, stopReading)
		defer release()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		slow := make(chan error, 1)
		go func() { slow <- n.send(ctx, "SET", key, "1") }()
		if !tr.server.await(key) {
			tr.Fatalf("the command of %s never reached the server", n.name)
		}
		out := tr.doShort(keyed("SET", "behind "+key, "1"))
		if out.err != nil { // it shares the connection
			tr.endedInTime("behind the slow command of "+n.name, out, context.DeadlineExceeded)
		}
		release()
		if err := <-slow; err != nil {
			tr.Errorf("%s, slow and ahead of our call, got an error of ours: %v", n.name, err)
		}
	}
}

func blocking(tr *trial) {
	const timeout = "4321" // WAIT has no key to call the fault up by
	release := tr.server.fault(timeout, stopReading)
	defer release()
	wait := keyless("WAIT", "1", timeout)
	wait.Blocks = true
	cmds := []driver.Command{keyed("SET", "durable", "1"), keyed("GET", "durable"), wait}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ours := make(chan outcome, 1)
	go func() { ours <- tr.call(ctx, cmds...) }()
	if !tr.server.await(timeout) {
		tr.Fatalf("the command that blocks never reached the server")
	}
	tr.start("beside WAIT", "sent while our WAIT blocked").all.Wait()
	select {
	case out := <-ours:
		tr.Fatalf("the command that blocks came back before the server answered it: %v", out.err)
	default:
	}
	release()
	out := <-ours
	if out.err != nil {
		tr.Fatalf("Do with WAIT = %v, want no error", out.err)
	}
	tr.expect(out, text("OK"), text("1"), number(0))
	if set, waited := tr.server.receipts("durable")[0], tr.server.receipts(timeout)[0]; set.conn != waited.conn {
		tr.Errorf("WAIT came on another connection than the write before it, and counts only what its own connection wrote")
	}

	defer tr.server.fault(timeout, keepSilent)()
	tr.endedInTime("a command that blocks for too long", tr.doShort(cmds...), context.DeadlineExceeded)
}
