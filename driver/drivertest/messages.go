package drivertest

import (
	"context"
	"errors"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

var messageCases = []testCase{
	{"a channel is confirmed when the server has confirmed it", confirmedInTime},
	{"a message arrives with its channel and its payload as they are", messageBytes},
	{"messages arrive in order and none is lost", messageOrder},
	{"1,000 channels in one Add are heard", thousandChannels},
	{"a channel that was removed is silent", removedChannel},
	{"a forbidden channel is refused and harms nothing else", refusedChannel},
}

// confirmedInTime publishes as soon as a channel is confirmed: that message has to arrive.
func confirmedInTime(tr *trial) {
	s := tr.subscribe()
	for i := range 20 {
		channel := "channel " + strconv.Itoa(i)
		release := tr.server.Fault(channel, scripted.StopReading)
		defer release()
		s.ask(channel)
		if !tr.server.Await(channel) {
			tr.Fatalf("Add returned no error, and its channel never reached the server")
		}
		if n := s.of(driver.Confirmed); len(n) > i {
			tr.Fatalf("the channel %q was confirmed before the server had confirmed it", channel)
		}
		release()
		s.confirmed(i, channel)
		if n := tr.publish(channel, "at once"); n != 1 {
			tr.Errorf("PUBLISH on a channel that is confirmed reached %d, want 1", n)
		}
		s.messages(i, publication{channel, "at once"})
	}
	s.correct()
}

func messageBytes(tr *trial) {
	s := tr.subscribe()
	var want []publication
	for _, channel := range byteStrings {
		s.add(channel)
		for _, payload := range byteStrings {
			tr.publish(channel, payload)
			want = append(want, publication{channel, payload})
		}
	}
	s.messages(0, want...)
	s.correct()
}

func messageOrder(tr *trial) {
	channels := []string{"a", "b", "c"}
	s := tr.subscribe(channels...)
	const size = 1000
	var cmds []driver.Command
	var want []publication
	for i := range size {
		w := publication{channels[i%len(channels)], strconv.Itoa(i)}
		cmds, want = append(cmds, keyless("PUBLISH", w.channel, w.payload)), append(want, w)
	}
	tr.do(cmds...)
	s.messages(0, want...)
	for i := range 50 { // one at a time, as they come in life
		w := publication{channels[i%len(channels)], "alone " + strconv.Itoa(i)}
		tr.publish(w.channel, w.payload)
		s.messages(size+i, w)
	}
	s.correct()
}

func thousandChannels(tr *trial) {
	var channels []string
	for i := range 1000 {
		channels = append(channels, "channel "+strconv.Itoa(i))
	}
	s := tr.subscribe(channels...)
	var cmds []driver.Command
	var want []publication
	for i, channel := range channels {
		if n := tr.server.Count(channel); n != 1 {
			tr.Fatalf("the server received %d commands about the channel %q, want one", n, channel)
		}
		if args := tr.server.Receipts(channel)[0].Args; len(args) != 2 {
			tr.Fatalf("a command asks for %d channels at once, want each in a command of its own", len(args)-1)
		}
		cmds, want = append(cmds, keyless("PUBLISH", channel, strconv.Itoa(i))), append(want, publication{channel, strconv.Itoa(i)})
	}
	tr.do(cmds...)
	s.messages(0, want...)
	s.remove(channels...)
	s.correct()
}

func removedChannel(tr *trial) {
	s := tr.subscribe("removed", "kept")
	tr.publish("removed", "before")
	s.messages(0, publication{"removed", "before"})
	s.remove("removed")
	if out := within(patience, func(ctx context.Context) error { return s.it.Remove(ctx, "never asked for") }); out.err != nil {
		tr.Errorf("Remove of a channel that was never asked for = %v, want no error", out.err)
	}
	tr.publish("removed", "unheard")
	tr.publish("kept", "later")
	s.messages(1, publication{"kept", "later"})

	s.add("removed") // is asked for again
	tr.publish("removed", "again")
	s.messages(2, publication{"removed", "again"})

	s.remove("removed", "kept") // none is left, and the subscription goes on
	s.add("new")
	tr.publish("kept", "unheard")
	tr.publish("new", "last")
	s.messages(3, publication{"new", "last"})
	s.correct()
}

func refusedChannel(tr *trial) {
	s := tr.subscribe("before")
	for i := range 3 {
		suffix := " " + strconv.Itoa(i)
		channels := []string{"first" + suffix, scripted.Forbidden + suffix, "last" + suffix}
		s.ask(channels...)
		refused := s.await(driver.Refused, i+1)
		if len(refused) != i+1 {
			tr.Fatalf("a forbidden channel: %d notices of kind Refused for %d of them; received: %s", len(refused), i+1, showNotices(s.all()))
		}
		var refusal *driver.ServerError
		if err := refused[i].Err; !errors.As(err, &refusal) || refusal.Code != "NOPERM" || "NOPERM "+refusal.Message != scripted.NoPerm {
			tr.Errorf("a forbidden channel is refused with %v (%T), want a *driver.ServerError of %q", err, err, scripted.NoPerm)
		}
		s.confirmed(1+2*i, channels[0], channels[2])
		for j, channel := range []string{"before", channels[0], channels[2]} {
			tr.publish(channel, "heard")
			s.messages(3*i+j, publication{channel, "heard"})
		}
	}
	s.correct()
}
