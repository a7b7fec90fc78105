package integration

import (
	"errors"
	"testing"

	"github.com/quorumlock/quorumlock/internal/memory"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/ripe"
)

// A node's name may lead to another server at any time, and the client connects to that one
// without a word. With the guard the same batch shows it, and without it the next look at the
// server, within about a second.
func TestAServerThatIsReachedAsTwoNodesVotesOnce(t *testing.T) {
	t.Parallel()
	onTrio(t, clients, server.Setup{}, func(t *trio, guarded bool) {
		locker := t.guardedLocker(guardIf(guarded), guarded)
		t.meet(locker)
		t.must(t.ways[2].Refuse())
		t.ways[0].Move(t.servers[1].Addr())
		early, tries, seen := 0, 0, guarded
		patient.Until(t.T, "the look at the server shows it, and 100 tries have failed since", func() bool {
			lock, err := locker.TryAcquire(t.Context(), t.key)
			switch seen = seen || mentions(err, "vote twice"); {
			case err == nil && seen:
				t.Fatalf("one server of three made a lock, and was seen to be two nodes: %v", lock.Votes())
			case err == nil:
				early++
				_ = lock.Release() // it may be the first that sees it
			case seen:
				tries++
			}
			return tries == 100
		})
		t.Logf("%d locks before the look, and none in %d tries afterwards", early, tries)
		t.ways[0].Move(t.servers[0].Addr())
		_, err := locker.Acquire(t.Context(), t.key, redlock.WithMaxWait(patience))
		t.check(err, "Acquire when the name leads back")
	})
}

// A node that Sentinel looks after is two servers when its old master was cut off and a
// replica promoted: those who do not hear of it go on with the old one, which votes
// and has forgotten nothing. No rule of the guard tells that one node votes twice. Where a
// vote needs the replicas, the old master has none.
func TestAnOldMasterThatWasCutOff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		replicas bool   // each master has one, and so has the one that is promoted
		config   string // of all masters
		says     string // why the old master has no vote; "": it has one
		option   redlock.Option
	}{
		{name: "it votes beside its successor, and the guard does not see it"},
		{
			name: "with replicated votes it has none", replicas: true, says: "0 of 1 replicas had it",
			option: redlock.WithDurability(redlock.Durability{Replicas: 1, Timeout: brief}),
		},
		{name: "with min-replicas-to-write it has none", replicas: true, config: "min-replicas-to-write", says: "NOREPLICAS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			needProcesses(t)
			t.Parallel()
			masters := []*server.Process{process(t), process(t), process(t)}
			successor := process(t)
			must(t, successor.Follow(masters[0]))
			if tt.replicas {
				for _, master := range append(masters[1:], successor) {
					must(t, process(t).Follow(master))
				}
			}
			if tt.config != "" {
				for _, p := range append(masters, successor) {
					_, err := p.Do("CONFIG", "SET", tt.config, "1")
					must(t, err)
				}
			}
			on := func(addrs ...string) *redlock.Locker {
				options := []redlock.Option{redlock.WithRestartGuard(longest), redlock.WithTTL(longest), redlock.WithNodeTimeout(brief)}
				if tt.option != nil {
					options = append(options, tt.option)
				}
				return newRenewing(t, clients[0].nodes(t, addrs), options...)
			}
			must(t, ripe.Servers(t.Context(), []string{masters[0].Addr(), masters[1].Addr(), masters[2].Addr()}, memory.Settings{Longest: longest}, ""))

			const unreachable = "127.0.0.1:1"
			must(t, successor.Promote())
			left := on(masters[0].Addr(), masters[1].Addr(), unreachable)
			right := on(successor.Addr(), unreachable, masters[2].Addr())
			one, err := left.TryAcquire(t.Context(), t.Name())
			if two := tt.says == ""; two != (err == nil) || !two && (!errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, tt.says)) {
				t.Errorf("with the old master, TryAcquire = %v, want ErrNoQuorum that says %q", err, tt.says)
			}
			two, err := right.Acquire(t.Context(), t.Name(), redlock.WithMaxWait(patience))
			must(t, err)
			if tt.says == "" && (one == nil || !one.Valid() || !two.Valid()) {
				t.Errorf("the locks are %v and %v: this does not show what the others are for", one, two)
			}
		})
	}
}
