package drivertest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

var endingCases = []testCase{
	{"a dropped connection is told once, at the end, and is not repaired", dropped},
	{"a connection that is lost while channels are asked for has ended", droppedByAdd},
	{"a subscription to a refused port fails at once", subscribeRefusedPort},
	{"a closed subscription says nothing any more", closedWhileHearing},
	{"a subscription that has gone takes no channels", addedTooLate},
}

func dropped(tr *trial) {
	for i := range 3 {
		channel := "channel " + strconv.Itoa(i)
		s := tr.subscribe(channel, "another")
		tr.publish(channel, "before")
		s.messages(0, publication{channel, "before"})
		tr.server.Cut()
		s.ended("the connection was cut")
		tr.recovers("a cut")

		anew := tr.subscribe(channel)
		if n := tr.publish(channel, "after"); n != 1 {
			tr.Errorf("PUBLISH after a cut reached %d subscribers, want 1: the one that was opened since", n)
		}
		anew.messages(0, publication{channel, "after"})
		anew.correct()
		s.correct()
		if n := len(s.of(driver.Message)); n != 1 {
			tr.Errorf("a subscription whose connection was cut has heard %d messages, want the one before", n)
		}
	}
}

func droppedByAdd(tr *trial) {
	for _, kind := range []scripted.Fault{scripted.LoseReply, scripted.ResetConn} {
		channel := "channel of a server that " + kind.String()
		release := tr.server.Fault(channel, kind)
		defer release()
		s := tr.subscribe("before")
		tr.returned("Add, and a server that "+kind.String(), s.addWithin(patience, channel))
		s.ended("a server that " + kind.String())
		release()
		s.correct()
		if n := len(s.of(driver.Confirmed)); n != 1 {
			tr.Errorf("a server that %s: %d channels were confirmed, want the one before", kind, n)
		}
		if n := tr.server.Count(channel); n != 1 {
			tr.Errorf("a server that %s received the channel %d times, want once: a lost subscription is not repaired", kind, n)
		}
	}
}

func subscribeRefusedPort(tr *trial) {
	s := tr.subscribe("before")
	tr.server.Refuse()
	s.ended("the server has gone")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, out := tr.trySubscribe(ctx)
	if out.err == nil {
		tr.Errorf("a refused port: Subscribe returned no error")
	}
	if out.took > prompt {
		tr.Errorf("a refused port: Subscribe = %v after %v, want at once", out.err, out.took.Round(time.Millisecond))
	}
	tr.Logf("a refused port: Subscribe took %v", out.took.Round(100*time.Microsecond))
}

// closedWhileHearing closes in the midst of messages. Somebody else shows that they
// have gone out.
func closedWhileHearing(tr *trial) {
	const size = 500
	other := tr.subscribe("channel")
	for i := range 5 {
		s := tr.subscribe("channel")
		var cmds []driver.Command
		for range size {
			cmds = append(cmds, keyless("PUBLISH", "channel", "message"))
		}
		published := make(chan outcome, 1)
		go func() { published <- tr.doPatient(cmds...) }()
		s.await(driver.Message, 10)
		s.close()
		if out := <-published; out.err != nil {
			tr.Fatalf("Do beside a subscription that is being closed = %v, want no error", out.err)
		}
		tr.publish("channel", "last")
		if n := len(other.await(driver.Message, (i+1)*(size+1))); n != (i+1)*(size+1) {
			tr.Fatalf("a subscription beside one that was closed has heard %d messages, want %d", n, (i+1)*(size+1))
		}
		s.correct()
	}
	other.correct()
}

func addedTooLate(tr *trial) {
	for _, end := range []struct {
		name string
		end  func(s *subscription)
	}{
		{"a subscription that has ended", func(s *subscription) { tr.server.Cut(); s.ended("the connection was cut") }},
		{"a subscription that was closed", func(s *subscription) { s.close() }},
	} {
		s := tr.subscribe("before")
		end.end(s)
		out := s.addWithin(patience, "too late")
		if out.err == nil || errors.Is(out.err, errHung) || out.took > prompt {
			tr.Errorf("%s: Add = %v after %v, want an error at once", end.name, out.err, out.took.Round(time.Millisecond))
		}
		tr.recovers("the end of a subscription")
		s.correct()
		tr.returned("a second Close", within(prompt, func(context.Context) error { return s.it.Close() }))
		if n := tr.server.Count("too late"); n != 0 {
			tr.Errorf("%s: the server received its channel %d times, want never", end.name, n)
		}
	}
}

// returned fails the case unless the call returned soon after its context's end.
func (tr *trial) returned(what string, out outcome) {
	tr.Helper()
	switch {
	case errors.Is(out.err, errHung):
		tr.Fatalf("%s %v", what, out.err)
	case out.late > prompt:
		tr.Errorf("%s returned %v after its context had ended, want at most 50ms", what, out.late.Round(time.Millisecond))
	}
}
