package main

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Crowd is goroutines that all want one key: each waits for it, holds it for
// its work, releases it and waits again, until the crowd is stopped.
type Crowd struct {
	members []Member
	cancel  context.CancelFunc
	joined  sync.WaitGroup
}

// Member is what one goroutine of a crowd has to report.
type Member struct {
	Turns  []Turn `json:"turns"`
	Failed int    `json:"failed,omitempty"`
	Err    string `json:"err,omitempty"` // the first failure
}

// Turn is one time that a goroutine had the lock: when it asked for it, got it, and was
// about to release it. Got is 0 in the last one if it was still waiting at the end.
type Turn struct {
	Asked moment `json:"asked"`
	Got   moment `json:"got"`
	Left  moment `json:"left"`
}

// shortWork is how long a turn lasts in most cases.
const shortWork = time.Millisecond

// startCrowd starts so many goroutines on the session, each of whose turns lasts for the work.
func startCrowd(ctx context.Context, session Session, key string, goroutines int, work time.Duration) *Crowd {
	ctx, cancel := context.WithCancel(ctx)
	c := &Crowd{members: make([]Member, goroutines), cancel: cancel}
	for i := range c.members {
		c.joined.Go(func() { c.members[i].run(ctx, session, key, work) })
	}
	return c
}

// Stop ends all waiting, and returns what happened.
func (c *Crowd) Stop() []Member {
	c.cancel()
	c.joined.Wait()
	return c.members
}

func (m *Member) run(ctx context.Context, session Session, key string, work time.Duration) {
	for ctx.Err() == nil {
		turn := Turn{Asked: now()}
		hold, err := session.Wait(ctx, key)
		if err == nil {
			turn.Got = now()
			time.Sleep(work)
			turn.Left = now()
			err = hold.Release(context.WithoutCancel(ctx))
		}
		if err == nil || ctx.Err() != nil {
			m.Turns = append(m.Turns, turn)
			continue
		}
		m.Failed++
		if m.Err == "" {
			m.Err = err.Error()
		}
	}
}

// moment is a time on the machine's monotonic clock in nanoseconds, which all of its
// processes share. Go does not show what it has of it in a time.Time.
type moment int64

func now() moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every system has it
	}
	return moment(t.Nano())
}

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }
