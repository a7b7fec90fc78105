package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// powerTTL outlives all that a test does to the nodes.
const powerTTL = time.Minute

// Under everysec a server acknowledges what is on no disk yet: after a power cut of a
// quorum somebody else gets the lock while its holder has it. With the option no vote
// that counted is lost.
func TestAPowerCutTakesNoDurableVote(t *testing.T) {
	program, err := powerServer()
	if err != nil {
		t.Skip(err)
	}
	nodes := powered(t, program, five, "--appendonly", "yes", "--appendfsync", "everysec")
	t.Run("without the option", func(t *testing.T) { testLoss(t, clients[0], nodes) })
	for i, policy := range []string{"everysec", "always"} {
		t.Run(policy, func(t *testing.T) { testNoLoss(t, clients[i+1], nodes, policy) })
	}
}

// testLoss shows that a lock is lost without the option, or the other tests show nothing.
func testLoss(t *testing.T, c client, nodes []*server.Process) {
	cut := nodes[:len(nodes)/2+1]
	for _, n := range cut {
		must(t, n.HoldDisk()) // or the first write after a pause may be synced at once
	}
	lock := powerLock(t, c, nodes, t.Name())
	cutPower(t, cut)
	for _, n := range cut {
		if got := value(t, n, t.Name()); got != "" {
			t.Errorf("a node has %q of what no disk had, want nothing", got)
		}
	}
	second, err := newPowerLocker(t, c, nodes).TryAcquire(t.Context(), t.Name(), redlock.WithTTL(powerTTL))
	must(t, err)
	if !lock.Valid() {
		t.Errorf("%v is no longer valid, so nothing was lost", lock)
	}
	must(t, second.Release())
}

func testNoLoss(t *testing.T, c client, nodes []*server.Process, policy string) {
	if info, err := nodes[0].Do("INFO", "server"); err != nil || policy == "everysec" && !strings.Contains(info, "redis_version:8.") {
		must(t, err)
		// Seen on Redict 7.3.6, Valkey 8.1.1 and 9.1.2, with each client.
		t.Skip("under everysec WAITAOF of this server may answer while the sync is still under way, so its votes can be lost")
	}
	const cuts = 2
	for cut := range cuts {
		for _, n := range nodes { // who forget it
			_, err := n.Do("CONFIG", "SET", "appendfsync", policy)
			must(t, err)
		}
		key := fmt.Sprint(t.Name(), cut)
		lock := powerLock(t, c, nodes, key, redlock.WithDurability(redlock.Durability{Disk: true}))
		votes := lock.Votes()
		cutPower(t, nodes)
		granted := 0
		for i, vote := range votes {
			if vote.Answer != "granted" {
				continue
			}
			granted++
			if got := value(t, nodes[i], key); got != lock.Token() {
				t.Errorf("%v is lost: the node holds %q", vote, got)
			}
		}
		if quorum := len(nodes)/2 + 1; granted < quorum {
			t.Errorf("the lock had %d votes, want %d: %v", granted, quorum, votes)
		}
		_, err := newPowerLocker(t, c, nodes).TryAcquire(t.Context(), key, redlock.WithTTL(powerTTL))
		if !errors.Is(err, redlock.ErrTaken) {
			t.Errorf("TryAcquire of a lock that is held = %v, want ErrTaken", err)
		}
	}
}

// Each node has a replica. The masters end right after the votes.
func TestAReplicatedVoteOutlivesItsNode(t *testing.T) {
	t.Parallel()
	onProcessesOver(t, one(0), "", func(t *testing.T, c client) {
		const three = 3
		var (
			masters, replicas []*server.Process
			addrs             []string
		)
		for range three {
			master, replica := process(t), process(t)
			must(t, replica.Follow(master))
			masters, replicas, addrs = append(masters, master), append(replicas, replica), append(addrs, master.Addr())
		}
		locker := newLocker(t, c.nodes(t, addrs), redlock.WithDurability(redlock.Durability{Replicas: 1, Timeout: time.Second}),
			redlock.WithTTL(powerTTL), redlock.WithCloseTimeout(0))
		key := t.Name()
		lock, err := locker.TryAcquire(t.Context(), key)
		must(t, err)
		must(t, lock.Release())

		for _, replica := range replicas[:2] {
			must(t, replica.Pause())
		}
		_, err = locker.TryAcquire(t.Context(), key)
		if !errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, "0 of 1 replicas had it within 1s") {
			t.Errorf("TryAcquire with two of three replicas silent = %v, want ErrNoQuorum", err)
		}
		for _, replica := range replicas[:2] {
			must(t, replica.Continue())
		}

		lock, err = locker.Acquire(t.Context(), key)
		must(t, err)
		for _, master := range masters {
			must(t, master.Kill())
		}
		for i, vote := range lock.Votes() {
			must(t, replicas[i].Promote())
			if got := value(t, replicas[i], key); vote.Answer == "granted" && got != lock.Token() {
				t.Errorf("%v is lost: the replica that was promoted holds %q", vote, got)
			}
		}
	})
}

// powerLock takes the key by a Locker of its own.
func powerLock(t *testing.T, c client, nodes []*server.Process, key string, options ...redlock.Option) *redlock.Lock {
	t.Helper()
	lock, err := newPowerLocker(t, c, nodes, options...).TryAcquire(t.Context(), key, redlock.WithTTL(powerTTL))
	must(t, err)
	return lock
}

func newPowerLocker(t *testing.T, c client, nodes []*server.Process, options ...redlock.Option) *redlock.Locker {
	t.Helper()
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr()
	}
	return newLocker(t, c.nodes(t, addrs), append([]redlock.Option{redlock.WithTTL(powerTTL)}, options...)...)
}

// powerServer is a server that knows WAITAOF and can lose its power: the one that
// processes run, or the one that test/tools/servers has fetched.
var powerServer = sync.OnceValues(func() (string, error) {
	if _, err := exec.LookPath("gcc"); err != nil {
		return "", server.ErrNoCompiler
	}
	program, err := server.Find()
	if err == nil && knowsWAITAOF(program) {
		return program, nil
	}
	if cache, err := os.UserCacheDir(); err == nil {
		if kept := filepath.Join(cache, "quorumlock", "servers", "redis-8.0", "bin", "redis-server"); knowsWAITAOF(kept) {
			return kept, nil
		}
	}
	return "", errors.New("no server knows WAITAOF (run test/tools/servers redis-8.0)")
})

func knowsWAITAOF(program string) bool {
	p, err := server.Setup{Program: program}.Launch()
	if err != nil {
		return false
	}
	defer func() { _ = p.Close() }()
	_, err = p.Do("WAITAOF", "0", "0", "1")
	return err == nil
}

// powered starts servers on disks that can lose their power.
func powered(t *testing.T, program string, count int, args ...string) (nodes []*server.Process) {
	t.Helper()
	for range count {
		nodes = append(nodes, launch(t, server.Setup{Program: program, Args: args, Disk: true}))
	}
	return nodes
}

// cutPower cuts the power of all the nodes at once, and starts them again.
func cutPower(t *testing.T, nodes []*server.Process) {
	t.Helper()
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { errs[i] = n.PowerCut() })
	}
	all.Wait()
	must(t, errors.Join(errs...))
	for _, n := range nodes {
		must(t, n.Start())
	}
}

// value returns what a node holds at key, or "".
func value(t *testing.T, n *server.Process, key string) string {
	t.Helper()
	value, err := n.Do("GET", key)
	must(t, err)
	return value
}

// A retry with the user's own token finds the key there. It must write all the same, or
// the node would prove what another connection has written.
func TestOnesOwnTokenIsWrittenAgain(t *testing.T) {
	t.Parallel()
	onProcessesOver(t, one(1), "", func(t *testing.T, c client) {
		node := process(t, "--appendonly", "yes", "--appendfsync", "no") // a sync under way puts off writes
		size := func() string {
			info, err := look(t, node).Info(t.Context(), "persistence").Result()
			must(t, err)
			_, size, _ := strings.Cut(info, "aof_current_size:")
			size, _, _ = strings.Cut(size, "\r\n")
			return size
		}
		locker := newLocker(t, c.nodes(t, []string{node.Addr()}), redlock.WithTTL(powerTTL))
		var sizes []string
		for range 3 {
			_, err := locker.TryAcquire(t.Context(), t.Name(), redlock.WithToken("mine"), redlock.WithTTL(powerTTL/2))
			must(t, err)
			sizes = append(sizes, size())
			must(t, look(t, node).PExpire(t.Context(), t.Name(), powerTTL).Err()) // so that there is nothing to prolong
			sizes = append(sizes, size())
		}
		if slices.Sort(sizes); len(slices.Compact(sizes)) != 6 {
			t.Errorf("a retry has written nothing: the file had these sizes: %v", sizes)
		}
	})
}

// Which servers can prove their votes is found out when they are first asked.
func TestServersThatCannotProveTheirVotesAreRefused(t *testing.T) {
	t.Parallel()
	onProcessesOver(t, one(2), "", func(t *testing.T, c client) {
		addr := process(t).Addr() // it has no append-only file
		locker := newLocker(t, c.nodes(t, []string{addr}), redlock.WithDurability(redlock.Durability{Disk: true}), redlock.WithMaxOutage(time.Second))
		_, err := locker.Acquire(t.Context(), t.Name())
		if !errors.Is(err, redlock.ErrNode) {
			t.Errorf("Acquire = %v, want ErrNode", err)
		}
		if says := []string{"set appendonly yes", "it has no WAITAOF"}; !slices.ContainsFunc(says, func(what string) bool { return mentions(err, what) }) {
			t.Errorf("Acquire = %v, which says neither of %q", err, says)
		}
	})
}
