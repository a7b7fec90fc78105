package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// mutant is a correct driver but for one thing.
type mutant struct {
	name   string
	mutate func(p *pool) driver.Driver
	caught map[string]string // a case, and words of its complaint
}

func (m mutant) open(r reporter, addr string) Subject {
	p := newPool(addr)
	d := m.mutate(p)
	r.Cleanup(func() { _ = p.Close() })
	if s, ok := d.(*shared); ok {
		r.Cleanup(s.Close)
	}
	return Subject{Driver: d}
}

// mutants are the faults that the suite is there to find.
var mutants = []mutant{
	{"sends again when the connection is lost", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if err != nil && ctx.Err() == nil {
			return p.Do(ctx, cmds)
		}
		return replies, err
	}).over, map[string]string{
		"a lost reply is an error and no second send":           "2 times, want once",
		"a reset connection is an error and no second send":     "2 times, want once",
		"half a reply is an error behind the replies before it": "2 times, want once",
	}},
	{"sends again what was refused", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		if slices.ContainsFunc(replies, func(r driver.Reply) bool { return strings.HasPrefix(r.Str, "LOADING ") }) {
			return p.Do(ctx, cmds)
		}
		return replies, err
	}).over, map[string]string{
		"an error reply is a reply and is not repeated":          "2 times, want once",
		"an error reply in the middle of a batch spoils nothing": "2 times, want once",
	}},
	{"ignores its context", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		return p.Do(context.WithoutCancel(ctx), cmds)
	}).over, map[string]string{
		"a context that has ended sends nothing":                 `want an error that is "context canceled"`,
		"a deadline ends a call to a silent server":              "Do had not returned",
		"a cancel ends a call before its deadline":               "Do had not returned",
		"a deadline ends a batch larger than the buffers":        "Do had not returned",
		"calls to a silent server leave a bounded number behind": "had not returned",
	}},
	{"returns 700ms late", late(700 * time.Millisecond).over, map[string]string{
		"a deadline ends a call to a silent server": "after its context",
		"a cancel ends a call before its deadline":  "after its context",
	}},
	{"returns 100ms late", late(100 * time.Millisecond).over, map[string]string{
		"a deadline ends a call to a silent server": "50ms",
	}},
	{"hears the deadline but no cancel", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		deadline, _ := ctx.Deadline()
		closed, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
		return p.Do(closed, cmds)
	}).over, map[string]string{
		"a cancel ends a call before its deadline": "Do had not returned",
	}},
	{"says neither deadline nor cancel", fails(func(error) error { return errors.New("something went wrong") }), map[string]string{
		"a deadline ends a call to a silent server": "which is not \"context deadline exceeded\"",
		"a cancel ends a call before its deadline":  "which is not \"context canceled\"",
	}},
	{"sends in another order", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		cmds = slices.Clone(cmds)
		slices.Reverse(cmds)
		replies, err := p.Do(ctx, cmds)
		slices.Reverse(replies)
		return replies, err
	}).over, map[string]string{
		"a batch keeps its order on one connection": "arrived in place",
	}},
	{"returns replies in another order", changes(func(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
		slices.Reverse(replies)
		return replies, err
	}), map[string]string{
		"a batch of 1,000 is answered in full":          "reply 1 of",
		"64 callers at once each get their own replies": "reply 1 of",
	}},
	{"sends a batch over two connections", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		other := newPool(p.addr)
		defer func() { _ = other.Close() }()
		half := len(cmds) / 2
		replies, err := p.Do(ctx, cmds[:half])
		if err != nil {
			return replies, err
		}
		more, err := other.Do(ctx, cmds[half:])
		return append(replies, more...), err
	}).over, map[string]string{
		"a batch keeps its order on one connection": "on another connection than the first",
		"a command that blocks holds nobody up":     "WAIT came on another connection",
	}},
	{"makes errors of error replies", changes(func(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
		for _, r := range replies {
			err = errors.Join(err, r.Err())
		}
		return replies, err
	}), map[string]string{
		"an error reply is a reply and is not repeated":          "ERR something went wrong",
		"an error reply in the middle of a batch spoils nothing": "ERR something went wrong",
	}},
	{"drops the replies before a cut", changes(func(_ []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
		if err != nil {
			return nil, err
		}
		return replies, nil
	}), map[string]string{
		"half a reply is an error behind the replies before it": "Do returned 0 of the 4 replies that had arrived",
	}},
	{"fills up the replies behind a cut", changes(func(cmds []driver.Command, replies []driver.Reply, err error) ([]driver.Reply, error) {
		return append(replies, make([]driver.Reply, len(cmds)-len(replies))...), err
	}), map[string]string{
		"half a reply is an error behind the replies before it":   "but only 4 had arrived",
		"a batch that is answered in part keeps no false replies": "but only 2 had arrived",
	}},
	{"takes an integer for a float", alters(func(r *driver.Reply) { r.Int = int64(float64(r.Int)) }), map[string]string{
		"a reply of every kind arrives as it is": "want integer 9007199254740993",
	}},
	{"takes nil for an empty string", alters(func(r *driver.Reply) {
		if r.Kind == driver.Nil {
			r.Kind = driver.String
		}
	}), map[string]string{
		"a reply of every kind arrives as it is": "want nil",
	}},
	{"trims values", alters(func(r *driver.Reply) { r.Str = strings.TrimSpace(r.Str) }), map[string]string{
		"keys and values may hold any bytes": "want string",
	}},
	{"leaves a goroutine behind with every call", leaves(1000, false), map[string]string{
		"calls to a silent server leave a bounded number behind":       "goroutines behind, want at most",
		"calls to a server that stopped leave a bounded number behind": "goroutines behind, want at most",
	}},
	{"leaves 40 behind", leaves(40, false), map[string]string{
		"calls to a silent server leave a bounded number behind": "goroutines behind, want at most",
	}},
	{"waits for room when too many are left behind", leaves(mayRemain, true), map[string]string{
		"calls to a silent server leave a bounded number behind": "had not returned",
	}},
	{"uses a connection again after giving up on it", func(p *pool) driver.Driver {
		return keeps(p, func(ctx context.Context, conn *resp.Conn, cmds []driver.Command) (replies []driver.Reply, err error) {
			_ = conn.SetDeadline(time.Time{})
			stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
			defer stop()
			if err := conn.Send(cmds); err != nil {
				return nil, err
			}
			for range cmds {
				reply, err := conn.Receive()
				if err != nil {
					return replies, errors.Join(err, ctx.Err())
				}
				replies = append(replies, reply)
			}
			return replies, nil
		})
	}, map[string]string{
		"a late reply goes to nobody else": `want string "call 0 after a late reply"`,
	}},
	// It shakes hands with every call, and comes to the commands when that has been answered, however late.
	{"reads the commands after its return", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		return driver.Await(ctx, func() ([]driver.Reply, error) {
			return shakesHandsFirst(context.WithoutCancel(ctx), p, cmds)
		}, func([]driver.Reply, error) {})
	}).over, map[string]string{
		"commands are not used after the return": "put into its slice after Do had returned",
	}},
	// One call at a time, so that it is not the race detector that finds it.
	{"changes the commands", func(p *pool) driver.Driver {
		var mu sync.Mutex
		return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			mu.Lock()
			defer mu.Unlock()
			cmds[0].Args[0] = strings.ToLower(cmds[0].Args[0].(string))
			return p.Do(ctx, cmds)
		})
	}, map[string]string{
		"commands are left as they are": "Do changed command 1",
	}},
	{"says that nothing was sent", fails(func(err error) error { return fmt.Errorf("%w: %w", driver.ErrNotSent, err) }), map[string]string{
		"a lost reply is an error and no second send": "wraps driver.ErrNotSent, but the server received 1",
		"a deadline ends a call to a silent server":   "wraps driver.ErrNotSent, but the server received 1",
	}},
	{"ignores its context while connecting", mutation(shakesHandsFirst).over, map[string]string{
		"a deadline ends a call while connecting": "Do had not returned",
	}},
	{"dials a refused port for a second", mutation(func(ctx context.Context, p *pool, cmds []driver.Command) ([]driver.Reply, error) {
		replies, err := p.Do(ctx, cmds)
		for range 5 {
			if !errors.Is(err, driver.ErrNotSent) {
				break
			}
			time.Sleep(200 * time.Millisecond) //nolint:forbidigo // as clients do between dials
			replies, err = p.Do(ctx, cmds)
		}
		return replies, err
	}).over, map[string]string{
		"a refused port fails at once": "want at once",
	}},
	{"hides what the server said", hidesRefusal(false), map[string]string{
		"a server that wants a password is heard": "but Do says",
	}},
	{"hides what the server said when it hung up", hidesRefusal(true), map[string]string{
		"a server that takes no connection is heard, whether it was asked or not": "but Do says",
	}},
	{"keeps dead connections", func(p *pool) driver.Driver {
		return keeps(p, func(ctx context.Context, conn *resp.Conn, cmds []driver.Command) ([]driver.Reply, error) {
			return conn.Exchange(ctx, cmds)
		})
	}, map[string]string{
		"an idle connection that the server closed is replaced": "on a server that is well again",
		"a reply that arrives before the close counts":          "on a server that is well again",
	}},
	{"shares a connection and closes it at a deadline", func(p *pool) driver.Driver { return &shared{pool: p, selfish: true} }, map[string]string{
		"our deadline is nobody else's":                        "got an error of ours",
		"our deadline at a stopped server is nobody else's":    "got an error of ours",
		"our cancel is nobody else's":                          "got an error of ours",
		"our deadline behind a slow stranger is nobody else's": "slow and ahead of our call, got an error of ours",
	}},
	{"shares a connection with commands that block", func(p *pool) driver.Driver { return &shared{pool: p} }, map[string]string{
		"a command that blocks holds nobody up":    "sent while our WAIT blocked",
		"a reply that never comes shifts no other": "reply 1 of",
	}},
}

func TestMutantsAreCaught(t *testing.T) { areCaught(t, mutants) }

// chances is how often a mutant may slip through that is tried alone.
const chances = 10

// areCaught lets the mutants wait side by side, since most of their cases are deadlines that pass. One
// may slip through: it is caught while something is on its way, which may have come and gone, or by how
// late it is, where those who watch are late as well. It is then tried alone.
func areCaught(t *testing.T, mutants []mutant) {
	t.Helper()
	defer func(before time.Duration) { patience = before }(patience)
	patience = 5 * time.Second // many mutants never do what is waited for
	type chance struct {
		mutant
		phrase, words string
	}
	complaints := func(it chance) []string {
		c := caseNamed(t, it.phrase)
		return watch(func(r reporter) { c.try(r, func(addr string) Subject { return it.open(r, addr) }) })
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var slipped []chance
	for _, m := range mutants {
		for name, words := range m.caught {
			it := chance{m, name, words}
			all.Go(func() {
				if !anyHas(complaints(it), words) {
					mu.Lock()
					defer mu.Unlock()
					slipped = append(slipped, it)
				}
			})
		}
	}
	all.Wait()
	for _, it := range slipped {
		var last []string
		for i := 0; i < chances && !anyHas(last, it.words); i++ {
			last = complaints(it)
		}
		if !anyHas(last, it.words) {
			t.Errorf("a driver that %s: %q complains of %q, want a complaint with %q", it.name, it.phrase, last, it.words)
		}
	}
}
