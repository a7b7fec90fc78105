package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/internal/node"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// down is a driver of a node that is down.
type down struct{}

func (down) Do(context.Context, []driver.Command) ([]driver.Reply, error) {
	return nil, driver.NotSent(errors.New("connection refused"))
}

func TestWhatANodeThatIsDownIsToBeCleanedOfIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := node.NewSet(node.Config{Clock: clockdrift.New(), Quorum: 1, TTL: time.Hour}, []driver.Node{{Name: "node", Driver: down{}}})
		b := NewBoard(Config{}, set)
		defer b.StopCleanups()
		for i := range MaxParked + 1 {
			h := new(Hold)
			h.Init(b, protocol.Exclusive, "k", "token", time.Hour)
			h.life.Answered(&lease.Round{Does: lease.Sets}, new(lease.Vote), &h.nodes[0].Trace, lease.Ran, lease.Granted, 1)
			h.mu.Lock()
			h.list(set.Nodes[0])
			clean := h.nodes[0].Clean()
			h.mu.Unlock()
			if clean != (i == MaxParked) {
				t.Fatalf("with %d clean-ups before it, one is left to the TTL: %t", i, clean)
			}
		}
		if left := b.Outstanding(); left != MaxParked {
			t.Errorf("%d clean-ups wait for a node that is down, want %d", left, MaxParked)
		}
	})
}
