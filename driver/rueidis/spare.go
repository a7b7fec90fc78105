package rueidis

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// A spare is a connection that a batch has to itself: one that blocks, or one to a master of a
// Cluster. The link keeps it for the next such batch. One that went back to the client's pool could
// not be told from others there, and so not be given up.
type spare struct {
	wire   rueidis.DedicatedClient
	master string // of a Cluster, or ""
	bound  bool   // the Cluster's client has chosen the master
}

// block sends a batch that blocks.
func (l *link) block(ctx context.Context, cmds []driver.Command) []rueidis.RedisResult {
	return l.alone("", true, func(s *spare) []rueidis.RedisResult {
		batch := make([]rueidis.Completed, len(cmds))
		for i := range cmds {
			batch[i] = write(s.wire.B(), cmds[i], true)
		}
		return s.wire.DoMulti(ctx, batch...)
	})
}

// alone lets send have a connection to itself, and may keep it.
func (l *link) alone(master string, keep bool, send func(s *spare) []rueidis.RedisResult) []rueidis.RedisResult {
	s := l.spare(master)
	whole := false
	defer func() { l.put(s, whole) }() // also after a panic of a hook
	results := send(s)
	// After MOVED the connection is not that of the master whose name it has: rueidis chose it by a map of before.
	whole = keep && !slices.ContainsFunc(results, func(r rueidis.RedisResult) bool {
		return r.NonRedisError() != nil || master != "" && strayed(r.Error())
	})
	return results
}

// spare takes a connection that the link has kept, or one out of the client's pool.
func (l *link) spare(master string) *spare {
	l.mu.Lock()
	for i, s := range slices.Backward(l.spares) {
		if s.master == master {
			l.spares = slices.Delete(l.spares, i, i+1)
			l.mu.Unlock()
			return s
		}
	}
	l.mu.Unlock()
	wire, _ := l.client.Dedicate()
	return &spare{wire: wire, master: master}
}

// put keeps a connection that is whole, unless the link serves no new calls. Where one is not, those that were idle as
// long are not tried. What is closed may wait for the server, a second at
// most, in which the call keeps its place.
func (l *link) put(s *spare, whole bool) {
	ends := []*spare{s}
	l.mu.Lock()
	if whole && !l.retired {
		l.spares, ends = append(l.spares, s), nil
	} else if !whole {
		l.spares = slices.DeleteFunc(l.spares, func(other *spare) bool {
			if other.master == s.master {
				ends = append(ends, other)
			}
			return other.master == s.master
		})
	}
	l.mu.Unlock()
	closeAll(ends)
}

func closeAll(spares []*spare) {
	var closing sync.WaitGroup
	for _, s := range spares {
		closing.Go(s.wire.Close)
	}
	closing.Wait()
}
