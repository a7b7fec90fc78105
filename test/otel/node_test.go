package otel

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/ripe"
)

// at are the attributes of a node of the lab, with further ones before.
func (l *lab) at(i int, before ...string) string {
	host, port, _ := strings.Cut(l.nodes[i].Addr(), ":")
	return strings.Join(append(before, "server.address="+host, "server.port="+port), ",")
}

func TestWhatALockerHasIsReadWhenMetricsAreCollected(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		for _, name := range []string{"redlock.locks", "redlock.waiters", "redlock.cleanups"} {
			l.wantValue(name, "", 0)
		}
		if all := l.points("redlock.node.up"); len(all) > 0 {
			t.Errorf("nodes that nobody has asked are up or down: %v", all)
		}
		first := l.acquire("a", redlock.WithTTL(time.Minute))
		l.acquire("b", redlock.WithTTL(time.Minute))
		next := l.wait("a")
		l.wantValue("redlock.locks", "", 2)
		l.wantValue("redlock.waiters", "", 1)
		for i := range size {
			l.wantValue("redlock.node.up", l.at(i), 1)
			l.wantValue("redlock.node.quarantine.remaining", l.at(i), 0)
			l.wantValue("redlock.node.queue.length", l.at(i), 0)
		}
		other := l.open(redlock.WithHooks(l.telemetry.Hooks()))
		stop := l.telemetry.Observe(other)
		must(other.Acquire(t.Context(), "c"))(t)
		l.wantValue("redlock.locks", "", 3)
		stop()
		l.wantValue("redlock.locks", "", 2)
		release(t, first)
		next()
		l.wantValue("redlock.waiters", "", 0)
	})
}

func TestNodesThatAreDownOrInQuarantineShow(t *testing.T) {
	guarded := settings{locker: []redlock.Option{redlock.WithRestartGuard(time.Minute)}}
	inBubble(t, guarded, func(t *testing.T, l *lab) {
		for _, n := range l.nodes {
			if err := ripe.Server(t.Context(), n.Dial, memory.Settings{Longest: time.Minute, Size: len(l.nodes)}, ""); err != nil {
				t.Fatal(err)
			}
		}
		release(t, l.acquire("k"))
		l.wantValue("redlock.node.up", l.at(0), 1)
		if err := l.nodes[0].RestartEmpty(); err != nil {
			t.Fatal(err)
		}
		l.nodes[1].Stop()
		for range 3 { // a node that is down is asked again after a cooldown
			_, _ = l.locker.TryAcquire(t.Context(), "k")
			time.Sleep(2 * time.Second)
		}
		l.wantValue("redlock.node.up", l.at(0), 0)
		l.wantValue("redlock.node.up", l.at(1), 0)
		l.wantValue("redlock.node.up", l.at(2), 1)
		if p, _ := l.find("redlock.node.quarantine.remaining", l.at(0)); p.Value < 45 || p.Value > 67.5 {
			t.Errorf("the quarantine of a node that has forgotten all lasts for %vs more, want some less than 67.5", p.Value)
		}
		l.wantValue("redlock.node.quarantine.remaining", l.at(1), 0)
	})
}

func TestRequestsThatQueueForANodeShow(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		release(t, l.acquire("warm"))
		synctest.Wait() // so that the release is no longer out: a node that hangs has one batch out
		l.nodes[0].Hang()
		for _, key := range []string{"a", "b", "c"} {
			lock := l.acquire(key)
			synctest.Wait() // so that it has left
			release(t, lock)
		}
		if p, ok := l.find("redlock.node.queue.length", l.at(0)); !ok || p.Value == 0 {
			t.Errorf("behind a node that hangs no request waits: %v", l.points("redlock.node.queue.length"))
		}
		l.wantValue("redlock.node.queue.length", l.at(1), 0)
	})
}

func TestCleanUpsShow(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		lock := l.acquire("k", redlock.WithTTL(time.Minute))
		synctest.Wait()
		l.nodes[0].Stop()
		release(t, lock)
		time.Sleep(time.Second)
		synctest.Wait() // a try may have begun at this moment
		l.wantValue("redlock.cleanups", "", 1)
		if err := l.nodes[0].Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		l.wantValue("redlock.cleanups", "", 0)
	})
}

func TestClocksOfNodesShow(t *testing.T) {
	inBubble(t, settings{locker: []redlock.Option{redlock.WithFences()}}, func(t *testing.T, l *lab) {
		for range 200 { // drift is known after the clocks were read for long enough
			lock := l.acquire("k")
			synctest.Wait() // so that it has left for all nodes
			release(t, lock)
			time.Sleep(10 * time.Second)
		}
		for i := range size {
			offset, known := l.find("redlock.node.clock.offset", l.at(i))
			drift, ok := l.find("redlock.node.clock.drift", l.at(i))
			if !known || !ok || offset.Value < -.001 || offset.Value > .001 || drift.Value != 0 {
				t.Errorf("of a clock that is right the offset is %v (%v) and the drift %v (%v), want 0", offset.Value, known, drift.Value, ok)
			}
		}
	})
}

func TestBatchesAreMeasuredByNodeAndFailure(t *testing.T) {
	const node = 1
	for _, tt := range []struct {
		failure string
		strike  func(l *lab)
	}{
		{"timeout", func(l *lab) { l.nodes[node].Hang() }},
		{"connection", func(l *lab) { l.nodes[node].Stop() }},
	} {
		t.Run(tt.failure, func(t *testing.T) {
			inBubble(t, settings{}, func(t *testing.T, l *lab) {
				lock := l.acquire("k")
				synctest.Wait() // so that all nodes have it
				release(t, lock)
				synctest.Wait()
				for i := range size {
					for _, name := range []string{"redlock.node.batch.duration", "redlock.node.batch.size"} {
						if p, ok := l.find(name, l.at(i)); !ok || p.Count < 2 {
							t.Errorf("node %d: %s is %v, want at least the acquire and the release", i, name, p)
						}
					}
				}
				tt.strike(l)
				lock = l.acquire("k")
				synctest.Wait()
				release(t, lock)
				time.Sleep(time.Second)
				synctest.Wait()
				if p, ok := l.find("redlock.node.batch.duration", l.at(node, "error.type="+tt.failure)); !ok || p.Count == 0 {
					t.Errorf("no batch has failed for %s: %v", tt.failure, l.points("redlock.node.batch.duration"))
				}
			})
		})
	}
}

func TestFailuresOfBatchesAreFewWords(t *testing.T) {
	inBubble(t, settings{telemetry: []otelredlock.Option{otelredlock.WithClientMetrics()}}, func(t *testing.T, l *lab) {
		tell := l.telemetry.Hooks().Batch
		for _, code := range []string{"NOPERM", "LOADING"} {
			tell(redlock.NodeBatch{Node: "cache", Requests: 3, Commands: 4, Latency: 2 * time.Second, Err: &driver.ServerError{Code: code}})
		}
		for i := range 100 { // a server that is out of its mind
			tell(redlock.NodeBatch{Node: "cache", Requests: 1, Err: &driver.ServerError{Code: strings.Repeat("X", i)}})
		}
		tell(redlock.NodeBatch{Node: "cache", Requests: 1, Err: redlock.ErrClosed})
		tell(redlock.NodeBatch{Node: "cache", Requests: 1, Err: driver.ErrProtocol})
		tell(redlock.NodeBatch{Node: "cache", Requests: 1, Err: redlock.ErrNode})
		tell(redlock.NodeBatch{Node: "[::1]:6380", Requests: 1})
		all := l.points("redlock.node.batch.duration")
		if len(all) > 50+5 {
			t.Errorf("there are %d time series, want at most 50 of servers' codes", len(all))
		}
		if p := l.want("redlock.node.batch.duration", "error.type=NOPERM,server.address=cache", 1); p.Value != 2 {
			t.Errorf("a batch of 2s took %v", p.Value)
		}
		if p := l.want("redlock.node.batch.size", "error.type=LOADING,server.address=cache", 1); p.Value != 3 {
			t.Errorf("a batch of 3 requests has %v", p.Value)
		}
		for _, failure := range []string{"closed", "protocol", "unfit"} {
			l.want("redlock.node.batch.duration", "error.type="+failure+",server.address=cache", 1)
		}
		if p, ok := l.find("redlock.node.batch.duration", "error.type=_OTHER,server.address=cache"); !ok || p.Count < 50 {
			t.Errorf("of 100 codes the others are %v, want at least 50", p)
		}
		l.want("redlock.node.batch.duration", "server.address=::1,server.port=6380", 1)
		l.want("db.client.operation.duration", "db.operation.name=PIPELINE,db.system.name=redis,error.type=NOPERM,server.address=cache", 1)
	})
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		release(t, l.acquire("k"))
		if _, ok := l.collect()["db.client.operation.duration"]; ok {
			t.Error("without WithClientMetrics there is db.client.operation.duration, which clients measure themselves")
		}
	})
}

func TestANodeThatIsBackShowsInAProcessThatTakesNoLocks(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, l *lab) {
		release(t, l.acquire("k"))
		l.nodes[0].Stop()
		for range 2 {
			release(t, l.acquire("k"))
			time.Sleep(time.Second)
		}
		l.wantValue("redlock.node.up", l.at(0), 0)
		if err := l.nodes[0].Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // nobody takes locks
		l.collect()
		synctest.Wait()
		l.wantValue("redlock.node.up", l.at(0), 1)
	})
}
