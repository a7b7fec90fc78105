package drivertest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// complaints is what hostile replies to a driver of the pool's make.
func complaints(mutate func(p *pool) driver.Driver, h hostility) []string {
	r := &recorder{}
	var ran sync.WaitGroup
	ran.Go(func() {
		defer func() {
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		on := newStage(r, func(addr string) driver.Driver {
			p := &pool{addr: addr}
			r.Cleanup(func() { _ = p.Close() })
			return mutate(p)
		})
		on.survives(r, h)
	})
	ran.Wait()
	return r.failures
}

func TestHostileRepliesAreJudged(t *testing.T) {
	odd := hostility{raw: "+OK\r\n", place: instead, ending: goesOn}
	for _, tt := range []struct {
		name   string
		mutate func(p *pool) driver.Driver
		h      hostility
		words  string // of a complaint; "" for none
	}{
		{"bears an odd reply", correct, hostility{"*1\r\n_\r\n", instead, goesOn}, ""},
		{"bears a cut", correct, hostility{"$5\r\nab", instead, hangsUp}, ""},
		{"takes the reply behind one for the next", correct, hostility{"+OK\r\n", behind, goesOn}, "got the reply string \"OK\""},
		{"takes a reply to nobody for the next", correct, hostility{"+OK\r\n", later, goesOn}, "got the reply string \"OK\""},
		{"returns a kind that there is not", changing(func(got []driver.Reply) []driver.Reply {
			got[0] = driver.Reply{Kind: driver.Array, Elems: []driver.Reply{{Kind: 99}}}
			return got
		}), odd, "unknown kind 99"},
		{"returns a reply too many", changing(func(got []driver.Reply) []driver.Reply { return append(got, text("")) }), odd, "4 replies to 3 commands"},
		{"takes what is announced", changing(func(got []driver.Reply) []driver.Reply {
			announced = make([]byte, modest+1<<20)
			return got
		}), odd, "MB were allocated"},
	} {
		got := complaints(tt.mutate, tt.h)
		if tt.words == "" && len(got) > 0 || tt.words != "" && !anyHas(got, tt.words) {
			t.Errorf("a driver that %s: complaints %q, want one with %q", tt.name, got, tt.words)
		}
	}
}

// announced keeps memory from being left out by the compiler.
var announced []byte

func correct(p *pool) driver.Driver { return p }

// changing is a driver whose replies are changed.
func changing(change func([]driver.Reply) []driver.Reply) func(p *pool) driver.Driver {
	return func(p *pool) driver.Driver {
		return do(func(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
			got, err := p.Do(ctx, cmds)
			if len(cmds) > 1 && len(got) > 0 {
				got = change(got)
			}
			return got, err
		})
	}
}
