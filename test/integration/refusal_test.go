package integration

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// A new user's mistakes, and servers that are not in order: the error says which node
// it is and what to do. Two of three nodes have the fault.
func TestRefusals(t *testing.T) {
	dead, err := redisserver.FreePort()
	must(t, err)
	for n, tt := range []struct {
		name string
		args []string                        // of the faulty servers
		url  string                          // %s is the address
		turn func(*testing.T, *redis.Client) // makes a server faulty that runs
		late bool                            // turn comes after the first contact
		is   error
		code string // of the *driver.ServerError
		says []string
	}{
		{
			name: "wrong address", url: fmt.Sprintf("redis://127.0.0.1:%d", dead),
			is: redlock.ErrNoQuorum, says: []string{"connection refused"},
		},
		{
			name: "no password", args: []string{"--requirepass", "secret"}, url: "redis://%s",
			is: redlock.ErrNoQuorum, code: "NOAUTH", says: []string{"password"},
		},
		{
			name: "wrong password", args: []string{"--requirepass", "secret"}, url: "redis://:wrong@%s",
			is: redlock.ErrNoQuorum, code: "WRONGPASS", says: []string{"password is wrong"},
		},
		{
			name: "no permission", args: []string{"--user", "locker", "on", ">secret", "~other:*", "+@all"}, url: "redis://locker:secret@%s",
			is: redlock.ErrNoQuorum, code: "NOPERM", says: []string{"ACL", "allow"},
		},
		{
			name: "a replica", turn: demote, url: "redis://%s",
			is: redlock.ErrNode, says: []string{"replica", "master's address"},
		},
		{
			name: "a master that became a replica", turn: demote, late: true, url: "redis://%s",
			is: redlock.ErrNoQuorum, code: "READONLY", says: []string{"replica", "master's address"},
		},
		{
			name: "out of memory", turn: fill, url: "redis://%s",
			is: redlock.ErrNoQuorum, code: "OOM", says: []string{"out of memory", "maxmemory"},
		},
		{
			name: "too few replicas", args: []string{"--min-replicas-to-write", "1"}, url: "redis://%s",
			is: redlock.ErrNoQuorum, code: "NOREPLICAS",
		},
		{
			name: "evicting", args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, url: "redis://%s",
			is: redlock.ErrNode, says: []string{"evicts", "maxmemory-policy noeviction"},
		},
		{
			name: "no lock at the key", turn: occupy, url: "redis://%s",
			is: redlock.ErrNoQuorum, code: "WRONGTYPE", says: []string{"another key"},
		},
	} {
		over := one(n)
		if tt.turn == nil && tt.is == redlock.ErrNoQuorum { //nolint:errorlint // a row of the table
			over = clients // each has its own words for a connection that comes to nothing
		}
		onProcessesOver(t, over, tt.name, func(t *testing.T, c client) {
			good := process(t)
			urls := []string{"redis://" + good.Addr()}
			var turn []*redis.Client
			for range 2 {
				bad := process(t, tt.args...)
				url := tt.url
				if strings.Contains(url, "%s") {
					url = fmt.Sprintf(url, bad.Addr())
				} else if len(urls) == 2 {
					url = strings.Replace(url, "127.0.0.1", "localhost", 1)
				}
				urls = append(urls, url)
				turn = append(turn, look(t, bad))
			}
			nodes := c.reach(t, urls...)
			locker := newLocker(t, nodes)
			if tt.late {
				lock, err := locker.TryAcquire(t.Context(), t.Name())
				must(t, err)
				must(t, lock.Release())
			}
			if tt.turn != nil {
				for _, bad := range turn {
					tt.turn(t, bad)
				}
			}

			_, err := locker.TryAcquire(t.Context(), t.Name())
			if !errors.Is(err, redlock.ErrNoQuorum) || !errors.Is(err, tt.is) {
				t.Errorf("TryAcquire = %v, want ErrNoQuorum and %v", err, tt.is)
			}
			for _, node := range nodes[1:] {
				if !mentions(err, slices.Concat(tt.says, []string{node.Name, tt.code})...) {
					t.Errorf("the error has not all of %q, %q and the node's name %s: %v", tt.code, tt.says, node.Name, err)
				}
			}
			var refusal *driver.ServerError
			if tt.code != "" && (!errors.As(err, &refusal) || refusal.Code != tt.code) {
				t.Errorf("the first refusal is %v, want code %s", refusal, tt.code)
			}
		})
	}
}

// A server that takes no connection says why, though nobody has asked, and hangs up. That line is
// in the error, every time, whichever client it is and whenever it came: before the client's first
// command, in place of its reply, or behind it.
func TestWhatAServerSaysUnaskedIsInTheError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		far  bool // not by loopback
		says []string
	}{
		{
			name: "protected mode", args: []string{"--protected-mode", "yes", "--bind", "*"}, far: true,
			says: []string{"DENIED", "unning in protected mode", "requirepass"},
		},
		{
			name: "the most clients", args: []string{"--maxclients", "1"},
			says: []string{"ERR max number of clients reached", "maxclients"},
		},
	} {
		onProcesses(t, tt.name, func(t *testing.T, c client) {
			p := process(t, tt.args...)
			addr := p.Addr()
			if tt.far {
				addr = net.JoinHostPort(farAddress(t), strconv.Itoa(p.Port()))
			} else {
				one := look(t, p) // that stays, once whoever saw the server start is gone
				patient.Until(t, "the server takes one client", func() bool { return one.Ping(t.Context()).Err() == nil })
			}
			ways := map[string]func() []driver.Node{
				"by a URL": func() []driver.Node {
					nodes := c.reach(t, "redis://"+addr)
					return nodes
				},
			}
			if c.name != "rueidis" && c.name != "valkeygo" { // whose client is not made at all then
				ways["by a client of the application's own"] = func() []driver.Node { return c.nodes(t, []string{addr}) }
			}
			for how, open := range ways {
				for range 20 {
					locker, err := redlock.New(open(), redlock.WithNodeTimeout(generous))
					must(t, err)
					_, err = locker.TryAcquire(t.Context(), t.Name())
					_ = locker.Close()
					if !errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, tt.says...) || mentions(err, "TLS") {
						t.Errorf("%s: TryAcquire = %v, want ErrNoQuorum that says %q", how, err, tt.says)
					}
					var refusal *driver.ServerError
					if !errors.As(err, &refusal) || len(refusal.Error()) > 200 {
						t.Errorf("%s: the error has the refusal %v, want a *driver.ServerError of at most 200 bytes", how, refusal)
					}
				}
			}
		})
	}
}

// farAddress is an address of this machine that is not on loopback.
func farAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	must(t, err)
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	t.Fatal("this machine has no address but loopback's, to which protected mode does not apply")
	return ""
}

// A user who may use the keys but not what lies beside them is told what that is.
func TestAUserWithoutTheKeysBesideTheKeysIsToldWhichTheyAre(t *testing.T) {
	t.Parallel()
	for n, tt := range []struct {
		name    string
		options []redlock.Option
		take    taker
		says    []string
	}{
		{"fences", []redlock.Option{redlock.WithFences()}, alone, []string{"~ql:fences:* +zadd +zscore +zrange +zremrangebyscore"}},
		{"fairness", []redlock.Option{redlock.WithFairness()}, alone, []string{"WithFairness", "~ql:line:{KEYS} ~ql:line=KEYS +zadd"}},
		{"the restart guard", []redlock.Option{redlock.WithRestartGuard(time.Minute)}, alone, []string{"allow ~ql:memory +hmget +hset"}},
		{"readers", nil, reads, []string{"AcquireShared", "~ql:readers:{KEYS} ~ql:readers=KEYS ~ql:line:{KEYS} ~ql:line=KEYS"}},
		{"several keys", nil, several, []string{"AcquireAll", "~ql:line:{KEYS} ~ql:line=KEYS +zadd"}},
		{"permits", nil, permit(1, 3), []string{"Semaphore", "~ql:slot:{KEYS}* ~ql:slot=KEYS", "~ql:permits:{KEYS} ~ql:permits=KEYS"}},
	} {
		onProcessesOver(t, one(n), tt.name, func(t *testing.T, c client) {
			p := process(t, "--user", "locker", "on", ">secret", "~job:*", "&*", "+@all")
			nodes := c.reach(t, "redis://locker:secret@"+p.Addr())
			options := []redlock.Option{redlock.WithNodeTimeout(generous), redlock.WithMaxWait(generous)}
			plain, err := redlock.New(nodes, options...)
			must(t, err)
			lock, err := plain.Acquire(t.Context(), "job:1")
			must(t, err)
			must(t, lock.Release())
			must(t, plain.Close())
			locker := newLocker(t, c.reach(t, "redis://locker:secret@"+p.Addr()), append(options, tt.options...)...)
			if _, err := tt.take(t, locker, "job:1"); !errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, append(tt.says, "NOPERM")...) {
				t.Errorf("the error is %v, want ErrNoQuorum that says %q", err, tt.says)
			}
		})
	}
}
