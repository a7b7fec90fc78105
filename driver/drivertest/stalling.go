package drivertest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

var stallingCases = []testCase{
	{"a deadline ends Subscribe and Add at a stalled server", subscribeStalled},
	{"a cancel ends Subscribe at a stalled server", subscribeCancelled},
	{"a deadline ends an Add larger than the buffers", largeAdd},
	{"Close does not wait for a stalled server", closeStalled},
}

func subscribeStalled(tr *trial) {
	tr.oneKeeps("Subscribe and Add at a stalled server", func(i int) outcome {
		thaw := tr.server.Freeze()
		defer thaw()
		ctx, cancel := context.WithTimeout(context.Background(), short)
		defer cancel()
		s, worst := tr.trySubscribe(ctx)
		tr.returned("Subscribe at a stalled server", worst)
		if s != nil {
			out := s.addWithin(short, "stalled "+strconv.Itoa(i))
			tr.returned("Add at a stalled server", out)
			worst.late, worst.clock = max(worst.late, out.late), max(worst.clock, out.clock)
			s.close()
			if n := s.of(driver.Confirmed); len(n) > 0 {
				tr.Errorf("a stalled server: %s", showNotices(n))
			}
		}
		thaw()
		if s != nil {
			s.correct()
		}
		return worst
	})
	tr.subscribe("well again").correct()
}

func subscribeCancelled(tr *trial) {
	thaw := tr.server.Freeze()
	defer thaw()
	opened := tr.server.Opened()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() {
		tr.server.AwaitOpened(opened)
		cancel()
	}()
	s, out := tr.trySubscribe(ctx)
	tr.returned("Subscribe that was cancelled at a stalled server", out)
	if s != nil {
		tr.returned("Add whose context had ended", s.tryAdd(ctx, "cancelled"))
		s.close()
	}
	thaw()
	if s != nil {
		s.correct()
	}
	tr.subscribe("well again").correct()
}

// largeAdd asks for more than lies in the buffers of a connection. A driver may have
// a buffer of its own; but if it gives up it says so, and ends.
func largeAdd(tr *trial) {
	s := tr.subscribe("before")
	thaw := tr.server.Freeze()
	defer thaw()
	var channels []string
	for i := range 200 {
		channels = append(channels, strings.Repeat("x", 100<<10)+strconv.Itoa(i))
	}
	out := s.addWithin(short, channels...)
	tr.returned("Add of 20 MB at a stalled server", out)
	if out.err != nil {
		s.ended("Add returned " + quote(out.err.Error()))
	}
	s.close()
	thaw()
	s.correct()
	tr.subscribe("well again").correct()
}

func closeStalled(tr *trial) {
	tr.oneKeeps("Close at a stalled server", func(i int) outcome {
		channel := "channel " + strconv.Itoa(i)
		s := tr.subscribe(channel)
		thaw := tr.server.Freeze()
		defer thaw()
		s.ask("stalled " + strconv.Itoa(i))
		out := s.close()
		thaw()
		if out.late > prompt {
			return out
		}
		tr.publish(channel, "after Close")
		s.correct()
		if n := s.of(driver.Message); len(n) > 0 {
			tr.Errorf("after Close: %s", showNotices(n))
		}
		return out
	})
}
