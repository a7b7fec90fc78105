package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// processes starts a cluster for two clients, of which the first two nodes are durable.
func processes(t *testing.T) *Cluster {
	t.Helper()
	c, err := Processes([]bool{true, true, false}, 2)
	if server.Missing(err) && !redisserver.Required("processes") {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A symptom is what a client sees of a fault, by a command on a connection that it had
// before.
type symptom struct {
	kind  schedule.Kind
	ask   []any
	shows func(answer string, err error) bool // nil: no answer comes
}

// A change is what a client sees of a fault in the middle of a batch: what its command is
// answered with in front of a vote, and behind it.
type change struct {
	kind  schedule.Kind
	ask   []any
	shows func(before, after string) bool
}

func fails(_ string, err error) bool { return err != nil }

func silent(_ string, err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func says(words string) func(answer string, err error) bool {
	return func(answer string, err error) bool { return strings.Contains(fmt.Sprint(answer, err), words) }
}

// quick is how long a client waits for an answer that is not to come.
const quick = 300 * time.Millisecond

var (
	ping = []any{"PING"}
	set  = []any{"SET", "key", "value"}
	get  = []any{"GET", "key"}
	role = []any{"INFO", "replication"}
)

var symptoms = []symptom{
	{schedule.Kill, ping, fails},
	{schedule.KillAll, ping, fails},
	{schedule.Die, ping, fails},
	{schedule.Pause, ping, nil},
	{schedule.CutRequests, ping, nil},
	{schedule.CutReplies, ping, nil},
	{schedule.Cut, ping, nil},
	{schedule.Lose, ping, nil},
	{schedule.Refuse, ping, fails},
	{schedule.Delay, ping, nil},
	{schedule.Reset, ping, fails},
	{schedule.Truncate, ping, fails},
	{schedule.StepForward, []any{"TIME"}, differs(time.Minute)},
	{schedule.StepBack, []any{"TIME"}, differs(0)}, // steps add up
	{schedule.FlushScripts, []any{"SCRIPT", "EXISTS", script}, says("[0]")},
	{schedule.FlushAll, get, says("redis: nil")},
	{schedule.FlushEverywhere, get, says("redis: nil")},
	{schedule.FullMemory, set, says("OOM")},
	{schedule.Forbid, set, says("NOPERM")},
	{schedule.CloseClients, ping, fails},
	{schedule.CloseSubscriptions, ping, says("PONG")},
	{schedule.PauseClients, set, nil},
	{schedule.Failover, get, fails}, // it is connected to the one that is not the master any more
	{schedule.Promote, get, fails},
	{schedule.Copy, role, says("role:slave")},
	{schedule.StallNode, ping, nil},
	{schedule.StallLinks, ping, nil},
	{schedule.Farther, ping, nil}, // by a minute
}

var changes = []change{
	{schedule.FlushInVote, get, func(before, after string) bool { return before == "value" && after == "redis: nil" }},
	{schedule.TurnInVote, role, func(before, after string) bool {
		return history(before) != history(after) && strings.Contains(after, "role:master")
	}},
	{schedule.StepForwardInVote, []any{"TIME"}, func(before, after string) bool {
		return differs(0)(before, nil) && differs(time.Minute)(after, nil)
	}},
	{schedule.StepBackInVote, []any{"TIME"}, func(before, after string) bool {
		return differs(0)(before, nil) && differs(-time.Minute)(after, nil)
	}},
}

// history is the master_replid of an INFO.
func history(info string) string {
	_, id, _ := strings.Cut(info, "master_replid:")
	id, _, _ = strings.Cut(id, "\r\n")
	return id
}

// script is the digest of "return 1".
const script = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"

// differs tells whether a server's TIME is about that far from ours.
func differs(by time.Duration) func(answer string, err error) bool {
	return func(answer string, err error) bool {
		var seconds int64
		_, e := fmt.Sscanf(answer, "[%d", &seconds)
		return err == nil && e == nil && (time.Until(time.Unix(seconds, 0))-by).Abs() < 30*time.Second
	}
}

// Every fault is made, is seen, and is over when it ends.
func TestEveryFault(t *testing.T) {
	c := processes(t)
	for _, kind := range c.Kinds() {
		switch kind {
		case schedule.StopClient, schedule.KillClient, schedule.HotKey, schedule.BlockCallbacks, schedule.PanicCallbacks:
			continue // not a cluster's
		case schedule.SlowInTime:
			continue // it answers: see below
		}
		t.Run(string(kind), func(t *testing.T) {
			if i := slices.IndexFunc(changes, func(c change) bool { return c.kind == kind }); i >= 0 {
				undergo(t, c, changes[i])
				return
			}
			i := slices.IndexFunc(symptoms, func(s symptom) bool { return s.kind == kind })
			if i < 0 {
				t.Fatal("nobody says what it looks like")
			}
			suffer(t, c, symptoms[i])
		})
	}
}

// However often it is asked, a slow node answers, and now and then late.
func TestASlowNodeAnswers(t *testing.T) {
	c := processes(t)
	end, err := c.Harm(schedule.Fault{Kind: schedule.SlowInTime, Nodes: []int{0}, For: time.Minute})
	must(t, err)
	for took := time.Duration(0); took < slowed/2; {
		began := time.Now()
		if answer, err := server.Do(c.Masters()[0], "PING"); answer != "PONG" {
			t.Fatalf("PING is answered with %q and %v", answer, err)
		}
		took = time.Since(began)
	}
	must(t, end())
}

// said is what a command was answered with.
func said(answer *redis.Cmd) string {
	if err := answer.Err(); err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer.Val())
}

// undergo has a client see the change in the middle of a batch of its own, and on no other
// occasion.
func undergo(t *testing.T, c *Cluster, ch change) {
	t.Helper()
	ctx := t.Context()
	client := redis.NewClient(&redis.Options{Addr: c.Links(0)[0], MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	defer func() { _ = client.Close() }()
	conn := client.Conn()
	fault := schedule.Fault{Kind: ch.kind, Nodes: []int{0}, Clients: []int{0}, For: time.Minute, Amount: time.Minute, Other: 2}
	for fault.Bytes = range 8 { // in front of the vote, and behind it; of a key that is there, and of any
		vote := []any{"SET", "lock", "token", "NX", "PX", 60_000}
		must(t, conn.Do(ctx, set...).Err())
		missed, err := c.Harm(fault)
		if err != nil {
			t.Fatalf("%v: %v", fault, err)
		}
		if err := missed(); !errors.Is(err, ErrMissed) {
			t.Errorf("%v, and no vote came: %v, want ErrMissed", fault, err)
		}
		if fault.Step() != 0 { // at its end
			if now := said(conn.Do(ctx, ch.ask...)); !differs(fault.Step())(now, nil) {
				t.Errorf("%v, and no vote came: the node's time is %v", fault, now)
			}
			setRight(t, c, fault)
		}
		end, err := c.Harm(fault)
		if err != nil {
			t.Fatalf("%v: %v", fault, err)
		}
		conn.Do(ctx, vote...) // which stands alone, and sets the key
		pipe := conn.Pipeline()
		before := pipe.Do(ctx, ch.ask...)
		pipe.Do(ctx, vote...)
		after := pipe.Do(ctx, ch.ask...)
		_, _ = pipe.Exec(ctx) // it may be nil
		if !ch.shows(said(before), said(after)) {
			t.Errorf("%v: %v is answered with %v in front of a vote, and with %v behind it", fault, ch.ask, before, after)
		}
		if err := end(); err != nil {
			t.Errorf("the end of %v: %v", fault, err)
		}
		if fault.Step() != 0 {
			setRight(t, c, fault)
		}
	}
}

// setRight takes the fault's step of a clock back: steps add up.
func setRight(t *testing.T, c *Cluster, f schedule.Fault) {
	t.Helper()
	f.Kind, f.Amount = schedule.StepBack, f.Step()
	end, err := c.Harm(f)
	must(t, errors.Join(err, end()))
}

// suffer has a client see the fault's symptom, and its end.
func suffer(t *testing.T, c *Cluster, s symptom) {
	t.Helper()
	ctx := t.Context()
	client := redis.NewClient(&redis.Options{
		Addr: c.Links(0)[0], MaxRetries: -1, DisableIdentity: true, Protocol: 2,
		DialTimeout: patient.Guard, ReadTimeout: patient.Guard, WriteTimeout: patient.Guard, ContextTimeoutEnabled: true,
	})
	defer func() { _ = client.Close() }()
	before := client.Conn()
	for _, words := range [][]any{set, {"EVAL", "return 1", 0}} {
		if err := before.Do(ctx, words...).Err(); err != nil {
			t.Fatalf("%v before the fault: %v", words, err)
		}
	}
	fault := schedule.Fault{Kind: s.kind, Nodes: []int{0}, For: time.Minute, Amount: time.Minute, Other: 2}
	end, err := c.Harm(fault)
	if err != nil {
		t.Fatalf("%v: %v", fault, err)
	}
	wait, shows := patient.Guard, s.shows
	if shows == nil {
		wait, shows = quick, silent
	}
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answer, err := before.Do(asking, s.ask...).Result()
	if !shows(fmt.Sprint(answer), err) {
		t.Errorf("%v: %v is answered with %v and %v", fault, s.ask, answer, err)
	}
	if err := end(); err != nil {
		t.Errorf("the end of %v: %v", fault, err)
	}
	if s.kind == schedule.PauseClients { // which ends by itself
		if _, err := server.Do(c.Masters()[0], "CLIENT", "UNPAUSE"); err != nil {
			t.Error(err)
		}
	}
	// A connection that the fault broke may be in the pool.
	awaitWell(t, client, fault)
}

// awaitWell returns when the client can write.
func awaitWell(t *testing.T, client *redis.Client, fault schedule.Fault) {
	t.Helper()
	wait := quick
	patient.Until(t, fmt.Sprintf("a client can write after %v", fault), func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		wait *= 2
		return client.Do(ctx, set...).Err() == nil
	})
}

// A cluster of which a node cannot be started says why, and closes those that were.
func TestANodeThatDoesNotStart(t *testing.T) {
	c, err := Of(3, 1, func(int) (*server.Process, error) { return nil, server.ErrNoServer })
	if c != nil || !errors.Is(err, server.ErrNoServer) {
		t.Errorf("three nodes that cannot be started make a cluster %v and the error %v, want %v", c, err, server.ErrNoServer)
	}
}

// A fault of some clients' links leaves the others alone.
func TestALinkIsOneClients(t *testing.T) {
	c := processes(t)
	end, err := c.Harm(schedule.Fault{Kind: schedule.Refuse, Nodes: []int{1}, Clients: []int{0}})
	must(t, err)
	if _, err := server.Do(c.Links(0)[1], "PING"); err == nil {
		t.Error("the client that is cut off gets an answer")
	}
	if _, err := server.Do(c.Links(1)[1], "PING"); err != nil {
		t.Errorf("the other client: %v", err)
	}
	must(t, end())
	if _, err := server.Do(c.Links(0)[1], "PING"); err != nil {
		t.Errorf("the client is still cut off: %v", err)
	}
}

func TestMain(m *testing.M) { leak.Main(m) }
