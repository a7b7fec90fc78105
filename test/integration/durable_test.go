package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// powerTTL outlives all that a test does to the nodes.
const powerTTL = time.Minute

// Under everysec a server acknowledges what is on no disk yet: after a power cut of a
// quorum somebody else gets the lock while its holder has it. With the option no vote
// that counted is lost.
func TestAPowerCutTakesNoDurableVote(t *testing.T) {
	nodes := powered(t, five, "--appendonly", "yes", "--appendfsync", "everysec")
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Run("without the option", func(t *testing.T) { testLoss(t, c, nodes) })
			for _, policy := range []string{"everysec", "always"} {
				t.Run(policy, func(t *testing.T) { testNoLoss(t, c, nodes, policy) })
			}
		})
	}
}

// testLoss shows that a lock is lost without the option, or the other tests show nothing.
func testLoss(t *testing.T, c client, nodes []*poweredNode) {
	const tries = 10 // a second may end between a vote and the cut
	for try := range tries {
		key := fmt.Sprint(t.Name(), try)
		lock := powerLock(t, c, nodes, key)
		must(t, lock.Release(t.Context())) // the first write after a pause is synced at once
		lock = powerLock(t, c, nodes, key)
		cut := nodes[:len(nodes)/2+1]
		cutPower(t, cut)
		lost := 0
		for _, n := range cut {
			if n.get(t, key) == "" {
				lost++
			}
		}
		second, err := newPowerLocker(t, c, nodes).TryAcquire(t.Context(), key, redlock.WithTTL(powerTTL))
		if err == nil && lock.Valid() {
			t.Logf("%d of %d nodes lost their votes, and %v went to somebody else", lost, len(cut), lock)
			must(t, second.Release(t.Context()))
			return
		}
	}
	t.Errorf("after %d power cuts of a quorum no lock was lost", tries)
}

func testNoLoss(t *testing.T, c client, nodes []*poweredNode, policy string) {
	const cuts = 3
	for cut := range cuts {
		for _, n := range nodes { // who forget it
			must(t, n.look(t).ConfigSet(t.Context(), "appendfsync", policy).Err())
		}
		key := fmt.Sprint(t.Name(), cut)
		lock := powerLock(t, c, nodes, key, redlock.WithDurableVotes(0))
		votes := lock.Votes()
		cutPower(t, nodes)
		granted := 0
		for i, vote := range votes {
			if vote.Answer != redlock.Granted {
				continue
			}
			granted++
			if got := nodes[i].get(t, key); got != lock.Token() {
				t.Errorf("%v is lost: the node holds %q", vote, got)
			}
		}
		if quorum := len(nodes)/2 + 1; granted < quorum {
			t.Errorf("the lock had %d votes, want %d: %v", granted, quorum, votes)
		}
		_, err := newPowerLocker(t, c, nodes).TryAcquire(t.Context(), key, redlock.WithTTL(powerTTL))
		if !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryAcquire of a lock that is held = %v, want ErrHeld", err)
		}
	}
}

// Each node has a replica. The masters end right after the votes.
func TestAReplicatedVoteOutlivesItsNode(t *testing.T) {
	if processes := kinds[1]; processes.missing != nil {
		return // the line that TestMain prints says so
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			const three = 3
			var (
				masters, replicas []*server.Process
				addrs             []string
			)
			for range three {
				master, replica := process(t), process(t)
				follow(t, look(t, replica), look(t, master), master.Port())
				masters, replicas, addrs = append(masters, master), append(replicas, replica), append(addrs, master.Addr())
			}
			locker, err := redlock.New(c.nodes(t, addrs), redlock.WithReplicatedVotes(1), redlock.WithTTL(powerTTL),
				redlock.WithNodeTimeout(generous), redlock.WithDurableTimeout(300*time.Millisecond), redlock.WithCleanupBound(0))
			must(t, err)
			defer locker.Close()
			key := t.Name()
			lock, err := locker.TryAcquire(t.Context(), key)
			must(t, err)
			must(t, lock.Release(t.Context()))

			for _, replica := range replicas[:2] {
				must(t, replica.Pause())
			}
			_, err = locker.TryAcquire(t.Context(), key)
			if !errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, "0 of 1 replicas had it within 300ms") {
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
				r := look(t, replicas[i])
				must(t, r.ReplicaOf(t.Context(), "NO", "ONE").Err())
				if got := r.Get(t.Context(), key).Val(); vote.Answer == redlock.Granted && got != lock.Token() {
					t.Errorf("%v is lost: the replica that was promoted holds %q", vote, got)
				}
			}
		})
	}
}

// follow makes a server a replica, and returns when it has its master's data.
func follow(t *testing.T, replica, master *redis.Client, port int) {
	t.Helper()
	// By default a master waits 5s for others that want its data, too.
	must(t, master.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0").Err())
	must(t, replica.ReplicaOf(t.Context(), "127.0.0.1", strconv.Itoa(port)).Err())
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // between two looks
		info, err := replica.Info(t.Context(), "replication").Result()
		must(t, err)
		if strings.Contains(info, "master_link_status:up") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v the replica has no data: %s", patience, info)
		}
	}
}

// powerLock takes the key by a Locker of its own.
func powerLock(t *testing.T, c client, nodes []*poweredNode, key string, options ...redlock.Option) *redlock.Lock {
	t.Helper()
	lock, err := newPowerLocker(t, c, nodes, options...).TryAcquire(t.Context(), key, redlock.WithTTL(powerTTL))
	must(t, err)
	return lock
}

func newPowerLocker(t *testing.T, c client, nodes []*poweredNode, options ...redlock.Option) *redlock.Locker {
	t.Helper()
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr()
	}
	options = append([]redlock.Option{redlock.WithTTL(powerTTL), redlock.WithNodeTimeout(generous)}, options...)
	locker, err := redlock.New(c.nodes(t, addrs), options...)
	must(t, err)
	t.Cleanup(func() { _ = locker.Close() }) // its keys may be gone, or on nodes that were
	return locker
}

// A poweredNode is a server that forgets what is not on its disk when its power is cut.
type poweredNode struct {
	*server.Process
	notes string // an inode and the length that is on the disk, a line each
	data  string
	env   func(t *testing.T)
}

// powered starts servers that know WAITAOF, on disks that can lose their power.
func powered(t *testing.T, count int, args ...string) (nodes []*poweredNode) {
	t.Helper()
	program := programWithWAITAOF(t)
	shim := buildShim(t)
	for i := range count {
		n := &poweredNode{notes: filepath.Join(t.TempDir(), fmt.Sprint("fsyncs", i))}
		n.env = func(t *testing.T) {
			t.Setenv("QUORUMLOCK_SERVER", program)
			t.Setenv("FSYNCS", n.notes)
			t.Setenv("LD_PRELOAD", shim)
		}
		n.env(t)
		n.Process = process(t, args...)
		dir, err := n.look(t).ConfigGet(t.Context(), "dir").Result()
		must(t, err)
		n.data = dir["dir"]
		nodes = append(nodes, n)
	}
	must(t, os.Unsetenv("LD_PRELOAD")) // the test's other children need none
	return nodes
}

// programWithWAITAOF returns a server.
func programWithWAITAOF(t *testing.T) string {
	t.Helper()
	program, err := server.Find()
	if cache, none := os.UserCacheDir(); none == nil && os.Getenv("QUORUMLOCK_SERVER") == "" {
		if kept := filepath.Join(cache, "quorumlock", "servers", "redis-8.0", "bin", "redis-server"); exists(kept) {
			program, err = kept, nil
		}
	}
	if err != nil {
		t.Skipf("no power was cut: %v", err)
	}
	t.Setenv("QUORUMLOCK_SERVER", program)
	c := look(t, process(t))
	if err := c.Do(t.Context(), "WAITAOF", 0, 0, 1).Err(); err != nil {
		t.Skipf("no power was cut: %s: %v (set QUORUMLOCK_SERVER to Redis 7.2, Valkey 8.0 or later)", program, err)
	}
	return program
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (n *poweredNode) look(t *testing.T) *redis.Client {
	t.Helper()
	return look(t, n.Process)
}

func (n *poweredNode) get(t *testing.T, key string) string {
	t.Helper()
	value, err := n.look(t).Get(t.Context(), key).Result()
	if !errors.Is(err, redis.Nil) {
		must(t, err)
	}
	return value
}

// cutPower cuts the power of all the nodes at once, and starts them again.
func cutPower(t *testing.T, nodes []*poweredNode) {
	t.Helper()
	for _, n := range nodes {
		must(t, n.Kill())
	}
	for _, n := range nodes {
		must(t, n.forget())
		n.start(t)
	}
}

func (n *poweredNode) start(t *testing.T) {
	t.Helper()
	n.env(t)
	must(t, n.Start())
	must(t, os.Unsetenv("LD_PRELOAD"))
}

// forget cuts the files to what is known to be on the disk.
func (n *poweredNode) forget() error {
	safe := map[uint64]int64{}
	notes, err := os.ReadFile(n.notes)
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(notes)); lines.Scan(); {
		var (
			inode  uint64
			length int64
		)
		if _, err := fmt.Sscan(lines.Text(), &inode, &length); err != nil {
			return err
		}
		safe[inode] = length
	}
	return filepath.WalkDir(n.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "log" {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if length := safe[info.Sys().(*syscall.Stat_t).Ino]; info.Size() > length {
			return os.Truncate(path, length)
		}
		return nil
	})
}

// buildShim builds what notes the length of a file whenever a sync of it has ended: the
// one that it had when the sync began.
func buildShim(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no power was cut: no gcc in PATH (install gcc)")
	}
	shim := filepath.Join(t.TempDir(), "fsync.so")
	build := exec.CommandContext(context.Background(), gcc, "-O2", "-shared", "-fPIC", "-xc", "-o", shim, "-") //nolint:gosec // our own source
	build.Stdin = strings.NewReader(shimSource)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return shim
}

const shimSource = `
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int sync_and_note(int fd, long call) {
	struct stat file;
	const char *notes = getenv("FSYNCS");
	int known = notes && fstat(fd, &file) == 0;
	int result = syscall(call, fd);
	if (known && result == 0) {
		char line[64];
		int length = snprintf(line, sizeof line, "%llu %lld\n",
			(unsigned long long)file.st_ino, (long long)file.st_size);
		int to = open(notes, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (to >= 0) {
			if (write(to, line, length) != length) abort();
			close(to);
		}
	}
	return result;
}
int fsync(int fd) { return sync_and_note(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_and_note(fd, SYS_fdatasync); }
`

// A retry with the user's own token finds the key there. It must write all the same, or
// the node would prove what another connection has written.
func TestOnesOwnTokenIsWrittenAgain(t *testing.T) {
	onProcesses(t, "", func(t *testing.T, c client) {
		node := process(t, "--appendonly", "yes")
		size := func() string {
			info, err := look(t, node).Info(t.Context(), "persistence").Result()
			must(t, err)
			_, size, _ := strings.Cut(info, "aof_current_size:")
			size, _, _ = strings.Cut(size, "\r\n")
			return size
		}
		locker, err := redlock.New(c.nodes(t, []string{node.Addr()}), redlock.WithTTL(powerTTL), redlock.WithNodeTimeout(generous))
		must(t, err)
		defer locker.Close()
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
	onProcesses(t, "", func(t *testing.T, c client) {
		addr := process(t).Addr() // it has no append-only file
		locker, err := redlock.New(c.nodes(t, []string{addr}), redlock.WithDurableVotes(0), redlock.WithNodeTimeout(generous))
		must(t, err)
		defer locker.Close()
		_, err = locker.Acquire(t.Context(), t.Name())
		if !errors.Is(err, redlock.ErrNode) {
			t.Errorf("Acquire = %v, want ErrNode", err)
		}
		if says := []string{"set appendonly yes", "it has no WAITAOF"}; !slices.ContainsFunc(says, func(what string) bool { return mentions(err, what) }) {
			t.Errorf("Acquire = %v, which says neither of %q", err, says)
		}
	})
}
