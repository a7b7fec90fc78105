package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/proxy"
)

// moving are three nodes whose addresses lead to other servers from now on, while what is connected
// stays where it is.
type moving struct {
	*testing.T
	old, next [3]*server.Process
	ways      []*proxy.Proxy
	addrs     []string
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{T: t}
	for i := range m.old {
		m.old[i], m.next[i] = process(t), process(t)
		way, err := proxy.New(m.old[i].Addr())
		must(t, err)
		t.Cleanup(func() { _ = way.Close() })
		m.ways, m.addrs = append(m.ways, way), append(m.addrs, way.Addr())
	}
	return m
}

func (m *moving) do(p *server.Process, words ...string) string {
	m.Helper()
	got, err := p.Do(words...)
	must(m.T, err)
	return got
}

// everywhere reports whether a lock can be had whose key all those servers have.
func (m *moving) everywhere(locker *redlock.Locker, all [3]*server.Process) bool {
	lock, err := locker.TryAcquire(m.Context(), "everywhere")
	if err != nil {
		return false
	}
	defer func() { _ = lock.Release() }()
	has := func(p *server.Process) bool { return m.do(p, "EXISTS", "everywhere") == "1" }
	return !slices.ContainsFunc(all[:], func(p *server.Process) bool { return !has(p) }) // or the third vote is still on its way
}

// heard reports whether somebody listens at all those servers.
func (m *moving) heard(all [3]*server.Process) bool {
	m.Helper()
	return !slices.ContainsFunc(all[:], func(p *server.Process) bool { return m.do(p, "PUBSUB", "CHANNELS") == "" })
}

func urls(addrs []string) (all []string) {
	for _, addr := range addrs {
		all = append(all, "redis://"+addr)
	}
	return all
}

func addrsOf(all [3]*server.Process) (addrs []string) {
	for _, p := range all {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

func TestNodesWhoseAddressesHaveMovedOn(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for name, harm := range map[string]func(m *moving, i int){
		"replicas": func(m *moving, i int) { m.do(m.old[i], "REPLICAOF", "127.0.0.1", "1") },
		"silent":   func(m *moving, i int) { must(m.T, m.old[i].Pause()) },
		"others":   func(*moving, int) {}, // only what connects anew finds out
	} {
		for _, c := range clients {
			for way, nodes := range map[string]func(t *testing.T, addrs []string) []driver.Node{
				"opened": func(t *testing.T, addrs []string) []driver.Node { t.Helper(); return c.reach(t, urls(addrs)...) }, "made": c.nodes,
			} {
				t.Run(strings.Join([]string{name, c.name, way}, "/"), func(t *testing.T) {
					t.Parallel()
					m := newMoving(t)
					locker := newLocker(t, nodes(t, m.addrs), redlock.WithNodeTimeout(brief))
					patient.Until(m.T, "all nodes vote", func() bool { return m.everywhere(locker, m.old) })
					// Somebody listens at the old servers.
					holder := newLocker(t, c.reach(t, urls(addrsOf(m.old))...))
					must(t, failed(holder.Acquire(t.Context(), "held", redlock.WithTTL(time.Hour))))
					got := make(chan error, 1)
					go func() {
						lock, err := locker.Acquire(t.Context(), "held", redlock.WithMaxWait(5*time.Minute))
						if err == nil {
							err = lock.Release()
						}
						got <- err
					}()
					patient.Until(m.T, "somebody listens at the old servers", func() bool {
						return m.heard(m.old)
					})
					successor := newLocker(t, c.reach(t, urls(addrsOf(m.next))...))
					must(t, failed(successor.Acquire(t.Context(), "held", redlock.WithTTL(time.Hour))))
					for i := range m.old {
						m.ways[i].Repoint(m.next[i].Addr())
						harm(m, i)
					}
					if name == "others" {
						for _, p := range m.old {
							m.do(p, "CLIENT", "KILL", "TYPE", "normal") // and the subscriptions stay
						}
					}
					patient.Until(m.T, "all new servers vote", func() bool { return m.everywhere(locker, m.next) })
					patient.Until(m.T, "somebody listens at the new servers", func() bool {
						_, _ = locker.TryAcquire(t.Context(), "more")
						return m.heard(m.next)
					})
					for _, p := range m.next {
						m.do(p, "DEL", "held")
					}
					must(t, <-got)
				})
			}
		}
	}
}
