package drivertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// subscription is one of the driver under test, with its notices.
type subscription struct {
	*inbox
	tr *trial
	it driver.Subscription

	closing sync.Once
}

// subscribe opens a subscription on a healthy server and waits until its channels
// are confirmed.
func (tr *trial) subscribe(channels ...string) *subscription {
	tr.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel() // and the subscription goes on
	s, out := tr.trySubscribe(ctx)
	if out.err != nil {
		tr.Fatalf("Subscribe on a healthy server = %v after %v, want a subscription", out.err, out.took)
	}
	s.add(channels...)
	return s
}

// trySubscribe calls Subscribe, and comes back even when that does not.
func (tr *trial) trySubscribe(ctx context.Context) (*subscription, outcome) {
	tr.Helper()
	s := &subscription{inbox: newInbox(), tr: tr}
	opened := make(chan driver.Subscription, 1)
	out := bounded(ctx, func() outcome {
		it, err := tr.Driver.(driver.Subscriber).Subscribe(ctx, s.onNotice) //nolint:forcetypeassert // there are no such cases for others
		if err == nil {
			opened <- it
		}
		return outcome{err: err}
	})
	if out.err != nil {
		return nil, out
	}
	if s.it = <-opened; s.it == nil {
		tr.Fatalf("Subscribe returned neither a Subscription nor an error")
	}
	tr.Cleanup(func() { s.close() }) //nolint:contextcheck // Close takes none
	return s, out
}

// tryAdd calls Add, and comes back even when that does not.
func (s *subscription) tryAdd(ctx context.Context, channels ...string) outcome {
	return bounded(ctx, func() outcome { return outcome{err: s.it.Add(ctx, channels...)} })
}

// addWithin calls Add with a deadline.
func (s *subscription) addWithin(limit time.Duration, channels ...string) outcome {
	return within(limit, func(ctx context.Context) error { return s.it.Add(ctx, channels...) })
}

// ask calls Add with no reason to fail.
func (s *subscription) ask(channels ...string) {
	s.tr.Helper()
	if out := s.addWithin(patience, channels...); out.err != nil {
		s.tr.Fatalf("Add of %d channels on a healthy server = %v after %v, want no error", len(channels), out.err, out.took)
	}
}

// add asks for channels and waits until each is confirmed once.
func (s *subscription) add(channels ...string) {
	s.tr.Helper()
	before := len(s.of(driver.Confirmed))
	s.ask(channels...)
	s.confirmed(before, channels...)
}

// confirmed fails the case unless each of the channels is confirmed once behind the
// first notices of that kind.
func (s *subscription) confirmed(before int, channels ...string) {
	s.tr.Helper()
	var got []string
	for _, n := range s.await(driver.Confirmed, before+len(channels))[before:] {
		got = append(got, n.Channel)
	}
	want := slices.Sorted(slices.Values(channels))
	if slices.Sort(got); !slices.Equal(got, want) {
		s.tr.Fatalf("of the %d channels that Add asked for %d were confirmed within %v, want each of them once; received: %s", len(want), len(got), patience, showNotices(s.all()))
	}
}

// remove unsubscribes from channels, and waits until the server has received it.
func (s *subscription) remove(channels ...string) {
	s.tr.Helper()
	var before []int
	for _, channel := range channels {
		before = append(before, s.tr.server.Subscribers(channel))
	}
	out := within(patience, func(ctx context.Context) error { return s.it.Remove(ctx, channels...) })
	if out.err != nil {
		s.tr.Fatalf("Remove on a healthy server = %v, want no error", out.err)
	}
	for i, channel := range channels {
		if !s.tr.server.AwaitSubscribers(channel, before[i]-1) {
			s.tr.Fatalf("the server never received that the channel %s was removed", quote(channel))
		}
	}
}

// close closes the subscription, which may not take long, and only counts once. The
// outcome is as late as it took.
func (s *subscription) close() outcome { return s.closeWithin(prompt) }

func (s *subscription) closeWithin(most time.Duration) (out outcome) {
	s.closing.Do(func() {
		s.tr.Helper()
		out = within(most, func(context.Context) error { return s.it.Close() })
		out.late, out.clock = out.took, most+out.clock
		s.inbox.close()
		if errors.Is(out.err, errHung) || out.took > most {
			s.tr.Errorf("Close took %v or longer, want at most 50ms", out.took.Round(time.Millisecond))
		}
	})
	return out
}

// correct fails the case if a notice was wrong. It closes the subscription first, so that late
// notices are found as well.
func (s *subscription) correct() {
	s.tr.Helper()
	s.close()
	s.tr.flushMessages()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wrong := range s.wrongs {
		s.tr.Errorf("%s", wrong)
	}
}

// flushMessages waits as long as a message takes, on a subscription of its own, so that wrong
// notices have the time to come.
func (tr *trial) flushMessages() {
	tr.Helper()
	channel := "quiet " + strconv.Itoa(tr.flushes)
	tr.flushes++
	s := tr.subscribe(channel)
	tr.publish(channel, "done")
	s.messages(0, publication{channel, "done"})
	s.close()
}

// publish returns how many subscribers the server has sent it to.
func (tr *trial) publish(channel, payload string) int64 {
	tr.Helper()
	return tr.do(keyless("PUBLISH", channel, payload)).replies[0].Int
}

// publication is a message.
type publication struct{ channel, payload string }

// messages fails the case unless exactly these messages, in this order, are behind
// the first ones.
func (s *subscription) messages(before int, want ...publication) {
	s.tr.Helper()
	got := s.await(driver.Message, before+len(want))
	got = got[min(before, len(got)):]
	for i, w := range want {
		if i >= len(got) {
			s.tr.Fatalf("message %d of %d, %s on %s, had not come after %v; received: %s", i+1, len(want), quote(w.payload), quote(w.channel), patience, showNotices(s.all()))
		}
		if got[i].Channel != w.channel || got[i].Payload != w.payload {
			s.tr.Fatalf("message %d of %d is %s, want %s on %s", i+1, len(want), showNotice(got[i]), quote(w.payload), quote(w.channel))
		}
	}
	if len(got) > len(want) {
		s.tr.Errorf("a message too many: %s", showNotice(got[len(want)]))
	}
}

// ended fails the case unless Ended comes.
func (s *subscription) ended(after string) {
	s.tr.Helper()
	if len(s.await(driver.Ended, 1)) == 0 {
		s.tr.Errorf("%s: Ended had not come after %v; received: %s", after, patience, showNotices(s.all()))
	}
}
