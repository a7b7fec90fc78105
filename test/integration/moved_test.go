package integration

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// A node's name may lead to another server at any time, and the client connects to that one
// without a word. With the guard the same batch shows it, and without it the next look at the
// server, within about a second.
func TestAServerThatIsReachedAsTwoNodesVotesOnce(t *testing.T) {
	onTrio(t, server.Setup{}, func(t *trio, guarded bool) {
		locker := t.guardedLocker(guardIf(guarded), guarded)
		t.meet(locker)
		t.must(t.ways[2].Refuse())
		t.ways[0].Move(t.servers[1].Addr())
		if !guarded {
			t.eventually("a server has one vote", func() bool {
				lock, err := locker.TryAcquire(t.Context(), t.key)
				if err == nil {
					err = lock.Release(t.Context()) // it may be the first that sees it
				}
				return err != nil
			})
		}
		for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			if lock, err := locker.TryAcquire(t.Context(), t.key); err == nil {
				t.Fatalf("one server of three is reached, as two nodes, and the lock is had: %v", lock.Votes())
			}
		}
	})
}
