package drivertest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

var neighbourCases = []testCase{
	{"our deadline is nobody else's", func(tr *trial) { deadlineBeside(tr, scripted.KeepSilent) }},
	{"our deadline at a stopped server is nobody else's", func(tr *trial) { deadlineBeside(tr, scripted.StopReading) }},
	// A server that reads on shows that the neighbours are on their way.
	{"our cancel is nobody else's", func(tr *trial) { unharmed(tr, scripted.KeepSilent, "given up", 2*patience) }},
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
	keys  []string
	begun sync.WaitGroup // until each has called its client
	all   sync.WaitGroup
}

// start sends four commands of each neighbour. Whoever gets an error fails the case.
func (tr *trial) start(prefix, when string) *crowd {
	c := &crowd{}
	for _, n := range tr.neighbours() {
		for i := range 4 {
			key := prefix + ": " + n.name + " " + strconv.Itoa(i)
			c.keys = append(c.keys, key)
			c.begun.Add(1)
			c.all.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				c.begun.Done()
				if err := n.send(ctx, "SET", key, "1"); err != nil {
					tr.Errorf("%s got an error of ours, %s: %v", n.name, when, err)
				}
			})
		}
	}
	return c
}

// deadlineBeside lets a deadline pass with neighbours waiting. On a busy machine it may
// pass before they are on their way, which shows nothing: the next one is longer.
func deadlineBeside(tr *trial, kind scripted.Fault) {
	for limit := short; limit <= 8*short; limit *= 2 {
		if unharmed(tr, kind, "given up after "+limit.String(), limit) >= limit/2 {
			return
		}
	}
}

// unharmed gives up a call on a stalled server with neighbours waiting. On a
// connection that they share with us they may have to wait until the server goes on,
// but then they have to be served. It returns for how long they were on their way
// before our call was given up.
func unharmed(tr *trial, kind scripted.Fault, key string, limit time.Duration) time.Duration {
	tr.start("before "+key, "before anything happened").all.Wait()
	release := tr.server.Fault(key, kind)
	defer release()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	deadline, _ := ctx.Deadline()
	ours := make(chan outcome, 1)
	go func() { ours <- tr.call(ctx, keyed("SET", key, "1")) }()
	if !tr.server.Await(key) {
		tr.Fatalf("our command never reached the server")
	}
	beside := tr.start("beside "+key, "sent while our call waited for a server that "+kind.String())
	beside.begun.Wait()
	left := time.Until(deadline)
	if limit > patience {
		tr.server.Await(beside.keys...)
		cancel()
	}
	if out := <-ours; out.err == nil {
		tr.Errorf("a server that %s: Do returned no error", kind)
	}
	release()
	beside.all.Wait()
	tr.start("after "+key, "sent after our call was given up").all.Wait()
	tr.recovers("a call that was given up")
	tr.sentOnce(key)
	return left
}

// behindStranger stalls a stranger's command and gives up our call behind it.
func behindStranger(tr *trial) {
	for _, n := range tr.neighbours() {
		key := "slow " + n.name
		release := tr.server.Fault(key, scripted.StopReading)
		defer release()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		slow := make(chan error, 1)
		go func() { slow <- n.send(ctx, "SET", key, "1") }()
		if !tr.server.Await(key) {
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
	release := tr.server.Fault(timeout, scripted.StopReading)
	defer release()
	wait := keyless("WAIT", "1", timeout)
	wait.Blocks = true
	cmds := []driver.Command{keyed("SET", "durable", "1"), keyed("GET", "durable"), wait}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ours := make(chan outcome, 1)
	go func() { ours <- tr.call(ctx, cmds...) }()
	if !tr.server.Await(timeout) {
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
	if set, waited := tr.server.Receipts("durable")[0], tr.server.Receipts(timeout)[0]; set.Conn != waited.Conn {
		tr.Errorf("WAIT came on another connection than the write before it, and counts only what its own connection wrote")
	}

	defer tr.server.Fault(timeout, scripted.KeepSilent)()
	tr.endedInTime("a command that blocks for too long", tr.doShort(cmds...), context.DeadlineExceeded)
}
