package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/fault/schedule"
	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/proxy"
)

// Harm does what the fault does to nodes. Its end is to be called when the fault has
// lasted for its time: until then others of the same nodes wait. It returns [ErrMissed] if
// the fault has not happened at any of them, or only at its end.
func (c *Cluster) Harm(f schedule.Fault) (end func() error, err error) {
	harm := harms[f.Kind]
	if harm == nil {
		return nil, fmt.Errorf("no node can have the fault %q", f.Kind)
	}
	// In this order, or two faults could wait for each other.
	var victims []*node
	for _, i := range slices.Sorted(slices.Values(f.Nodes)) {
		c.nodes[i].mu.Lock()
		victims = append(victims, c.nodes[i])
	}
	ends := make([]func() error, len(victims))
	err = each(victims, func(i int, n *node) (err error) {
		ends[i], err = harm(&harmed{c, n, f})
		return err
	})
	return func() error {
		var missed atomic.Int32
		err := each(victims, func(i int, n *node) error {
			defer n.mu.Unlock()
			if ends[i] == nil {
				return nil
			}
			err := ends[i]()
			if errors.Is(err, ErrMissed) {
				missed.Add(1)
				return nil
			}
			return err
		})
		if err == nil && int(missed.Load()) == len(victims) {
			return ErrMissed
		}
		return err
	}, err
}

// harmed is one node that a fault happens to.
type harmed struct {
	*Cluster
	*node
	fault schedule.Fault
}

// harms are how each fault is made, and how it ends: at once if that is nil.
var harms = map[schedule.Kind]func(h *harmed) (end func() error, err error){
	schedule.Kill:    kill,
	schedule.KillAll: kill,
	schedule.Die:     kill,
	schedule.Pause:   func(h *harmed) (func() error, error) { return h.server.Continue, h.server.Pause() },

	schedule.CutRequests: func(h *harmed) (func() error, error) { return h.cut(proxy.Requests) },
	schedule.CutReplies:  func(h *harmed) (func() error, error) { return h.cut(proxy.Replies) },
	schedule.Cut:         func(h *harmed) (func() error, error) { return h.cut(proxy.Both) },
	schedule.Lose:        lose,
	schedule.Refuse:      refuse,
	schedule.Delay:       delay,
	schedule.Reset:       reset,
	schedule.Truncate:    truncate,

	schedule.StallNode:  stallNode,
	schedule.StallLinks: stallLinks,
	schedule.SlowInTime: slow,
	schedule.Farther:    farther,

	schedule.StepForward: step,
	schedule.StepBack:    step,

	schedule.FlushScripts:       func(h *harmed) (func() error, error) { return nil, h.do("SCRIPT", "FLUSH") },
	schedule.FlushAll:           func(h *harmed) (func() error, error) { return nil, h.do("FLUSHALL") },
	schedule.FlushEverywhere:    func(h *harmed) (func() error, error) { return nil, h.do("FLUSHALL") },
	schedule.CloseClients:       func(h *harmed) (func() error, error) { return nil, h.do("CLIENT", "KILL", "TYPE", "normal") },
	schedule.CloseSubscriptions: func(h *harmed) (func() error, error) { return nil, h.do("CLIENT", "KILL", "TYPE", "pubsub") },
	schedule.FullMemory:         fill,
	schedule.Forbid:             forbid,
	schedule.PauseClients:       pauseClients,

	schedule.Failover: failover,
	schedule.Promote:  promote,
	schedule.Copy:     copyAnother,

	schedule.FlushInVote: func(h *harmed) (func() error, error) {
		return h.interrupt(func() error { return h.do("FLUSHALL") })
	},
	schedule.TurnInVote: func(h *harmed) (func() error, error) {
		return h.interrupt(func() error { return h.master().Turn(h.empty) })
	},
	schedule.StepForwardInVote: stepInVote,
	schedule.StepBackInVote:    stepInVote,
}

func kill(h *harmed) (func() error, error) { return h.server.Start, h.server.Kill() }

// cut holds up what the fault's clients send or get, until it ends.
func (h *harmed) cut(way proxy.Direction) (func() error, error) {
	for _, link := range h.linked() {
		link.Cut(way)
	}
	return func() error {
		for _, link := range h.linked() {
			link.Mend()
		}
		return nil
	}, nil
}

func lose(h *harmed) (func() error, error) {
	mend, err := h.cut(proxy.Both)
	return func() error {
		_, err := reset(h)
		_ = mend() // never fails
		return err
	}, err
}

func refuse(h *harmed) (func() error, error) {
	return func() error { return h.eachLink((*proxy.Proxy).Accept) }, h.eachLink((*proxy.Proxy).Refuse)
}

// delay delays by half, and by up to another half.
func delay(h *harmed) (func() error, error) {
	return h.late(h.fault.Amount/2, h.fault.Amount/2), nil
}

// farther adds its amount to each round trip.
func farther(h *harmed) (func() error, error) {
	unwatch := h.watchVotes()
	near := h.late(h.fault.Amount/2, 0)
	return func() error { unwatch(); return near() }, nil
}

// late delays each way until the end that it returns.
func (h *harmed) late(delay, jitter time.Duration) (end func() error) {
	set := func(delay, jitter time.Duration) {
		for _, link := range h.linked() {
			link.Delay(delay)
			link.Jitter(jitter)
		}
	}
	set(delay, jitter)
	return func() error { set(0, 0); return nil }
}

func reset(h *harmed) (func() error, error) {
	for _, link := range h.linked() {
		link.Reset()
	}
	return nil, nil
}

func truncate(h *harmed) (func() error, error) {
	for _, link := range h.linked() {
		link.Truncate(h.fault.Bytes)
	}
	return func() error {
		for _, link := range h.linked() {
			link.Truncate(-1)
		}
		return nil
	}, nil
}

func fill(h *harmed) (func() error, error) {
	return func() error { return h.do("CONFIG", "SET", "maxmemory", "0") }, h.do("CONFIG", "SET", "maxmemory", "1")
}

func forbid(h *harmed) (func() error, error) {
	return func() error { return h.do("ACL", "SETUSER", "default", "+@all") },
		h.do("ACL", "SETUSER", "default", "-set", "-eval", "-evalsha", "-publish", "-subscribe")
}

// pauseClients does not last longer than the fault by itself.
func pauseClients(h *harmed) (func() error, error) {
	milliseconds := fmt.Sprint(h.fault.For.Milliseconds())
	return nil, h.do("CLIENT", "PAUSE", milliseconds, []string{"WRITE", "ALL"}[h.fault.Bytes%2])
}

// step moves the clock of the node. Its replica's stays.
func step(h *harmed) (func() error, error) {
	process, ok := h.server.(*server.Process)
	if !ok {
		return nil, fmt.Errorf("%T has no clock of its own", h.server)
	}
	return nil, process.StepClock(h.fault.Step())
}

// stepInVote moves the clock of the node in the middle of a batch, or when the fault ends if
// there was none: then all nodes of the fault have moved by as much.
func stepInVote(h *harmed) (func() error, error) {
	step := func() error { return h.master().StepClock(h.fault.Step()) }
	interrupted, err := h.interrupt(step)
	return func() error {
		err := interrupted()
		if errors.Is(err, ErrMissed) {
			if failed := step(); failed != nil {
				return failed
			}
		}
		return err
	}, err
}

func (h *harmed) do(words ...string) error {
	_, err := server.Do(h.server.Addr(), words...)
	return err
}

// linked are the links to the node of those clients that the fault is about.
func (h *harmed) linked() []*proxy.Proxy {
	if h.fault.Clients == nil {
		return h.links
	}
	var links []*proxy.Proxy
	for _, i := range h.fault.Clients {
		links = append(links, h.links[i])
	}
	return links
}

func (h *harmed) eachLink(do func(*proxy.Proxy) error) error {
	for _, link := range h.linked() {
		if err := do(link); err != nil {
			return err
		}
	}
	return nil
}

// A node may take 250 ms to answer.
const (
	stalled = 400 * time.Millisecond // how long one stall lasts: longer than that
	slowed  = 200 * time.Millisecond // four fifths of it: answers are late, and in time
	between = 40 * time.Millisecond  // those, for the node to answer all that has come
)

func stallNode(h *harmed) (func() error, error) {
	return h.stall(stalled, h.fault.Amount, h.watch(), h.server.Pause, h.server.Continue)
}

func slow(h *harmed) (func() error, error) {
	return h.stall(slowed, between, h.watchVotes(), h.server.Pause, h.server.Continue)
}

// stall stalls the node again and again until the fault ends, with pauses.
func (h *harmed) stall(lasts, pause time.Duration, unwatch func(), stop, goOn func() error) (func() error, error) {
	var (
		ended   = make(chan struct{})
		err     = stop() // before anybody can look
		running sync.WaitGroup
	)
	running.Go(func() {
		for err == nil {
			over := sleep(lasts, ended)
			if err = goOn(); over || sleep(pause, ended) {
				return
			}
			err = errors.Join(err, stop())
		}
	})
	return func() error {
		close(ended)
		running.Wait()
		unwatch()
		return err
	}, nil
}

// sleep reports whether it has ended early.
func sleep(d time.Duration, ended <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

func stallLinks(h *harmed) (func() error, error) {
	var mend func() error
	return h.stall(stalled, h.fault.Amount, h.watch(),
		func() (err error) { mend, err = h.cut(proxy.Both); return err },
		func() error { return mend() },
	)
}
