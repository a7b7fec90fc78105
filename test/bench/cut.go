package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// shortTTL is the lease of holders that are cut off.
const shortTTL = time.Second

var cut = Case{
	Name: "cut",
	About: "a holder with a TTL of 1 s that renews itself, and three of the five nodes silent from some moment on, without a reset, 10 times; " +
		"how far from its deadline the lock's context ends",
	Columns: []Column{
		{"median", "median", duration},
		{"worst", "worst", duration},
	},
	Run: runCut,
}

func runCut(ctx context.Context, b *Bench, t *Table) error {
	times := 10
	if b.Quick {
		times = 2
	}
	fault := hung(3) // what it does not hear it does not answer: to a client that is a cut
	return b.waitingAlone().turns(ctx, t, 1, []int{1}, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: shortTTL, Renewed: true})
		if err != nil {
			return err
		}
		defer b.end(session)
		var off []float64
		for i := range times {
			d, err := cutOff(ctx, b.Site, session, fmt.Sprintf("bench:cut:%08d", i), fault)
			if err = errors.Join(err, b.Site.mend(ctx, fault)); err != nil {
				return err
			}
			off = append(off, d.Seconds())
		}
		t.Add(Key{Contender: c.Name(), Situation: fault.Name}, map[string]float64{"median": median(off), "worst": slices.Max(off)})
		return b.Site.Flush()
	})
}

// cutOff lets a holder renew its lease for some time, cuts it off, and returns how far
// from its deadline its context ends, before or after.
func cutOff(ctx context.Context, site *Site, session Session, key string, fault Fault) (time.Duration, error) {
	hold, err := session.Wait(ctx, key)
	if err != nil {
		return 0, err
	}
	lock, ours := hold.(*redlock.Lock)
	if !ours {
		return 0, fmt.Errorf("a %T has no deadline", hold)
	}
	// Longer than the TTL, or nobody would know that it renews; and at any moment
	// between two renewals.
	if err := pause(ctx, shortTTL+rand.N(shortTTL)); err != nil { //nolint:gosec // no secret
		return 0, err
	}
	if err := fault.strike(site); err != nil {
		return 0, err
	}
	// A renewal that was under way has been answered by now, and the next one cannot be.
	if err := pause(ctx, 50*time.Millisecond); err != nil {
		return 0, err
	}
	if !lock.Valid() {
		return 0, errors.New("the lock was lost before its holder was cut off")
	}
	deadline := time.Now().Add(time.Until(lock.Until())) // the wall clock may be stepped from here on
	<-lock.Context().Done()
	off := time.Since(deadline).Abs()
	if cause := context.Cause(lock.Context()); !errors.Is(cause, redlock.ErrLost) { //nolint:contextcheck // the lock's context descends from ctx
		return 0, fmt.Errorf("the lock's context ended for another reason: %w", cause)
	}
	return off, nil
}
