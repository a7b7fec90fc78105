package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A keeper lets all holds begin.
type keeper struct{}

func (keeper) Begins(clockdrift.Instant) error { return nil }
func (keeper) Ends(End) error                  { return nil }
func (keeper) Renewed(*Operation)              {}

// The machine may sleep between the reading of the number and that of the operation's start.
func TestAFenceIsAsOldAsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		set := node.NewSet(node.Config{Clock: clockdrift.New(), Quorum: 1, TTL: ttl}, []driver.Node{{Name: "node", Driver: down{}}})
		b := NewBoard(Config{Fences: true}, set)
		defer b.StopCleanups()
		for age, want := range map[time.Duration]bool{0: true, 9 * time.Second: true, 10 * time.Second: false} {
			h := &Hold{Keeper: keeper{}, MaxHold: time.Hour}
			h.Init(b, protocol.Exclusive, "k", "token", ttl)
			op := &h.Acquire
			op.Prepare(h, h.Kind.Acquire, ttl)
			now := b.Clock.Fresh()
			op.Fence.Number, op.Asked, op.Start = b.Microseconds()-age.Microseconds(), now, now
			h.mu.Lock()
			got := h.begin(op, now)
			h.mu.Unlock()
			if got != want {
				t.Errorf("a lock of 10s whose number is %v old is given out: %t, want %t", age, got, want)
			}
		}
	})
}
