package drivertest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

var concurrencyCases = []testCase{
	{"calls go on unharmed beside a subscription", callsBeside},
	{"several subscriptions have nothing to do with each other", severalAtOnce},
	{"a subscription may be used by many at once", usedAtOnce},
	{"a closed subscription leaves nothing behind", leavesNothing},
}

// callsBeside stalls the subscription, then a call beside it.
func callsBeside(tr *trial) {
	s := tr.subscribe("before")
	release := tr.server.Fault("stalled", scripted.StopReading)
	defer release()
	s.ask("stalled")
	if !tr.server.Await("stalled") {
		tr.Fatalf("the channel never reached the server")
	}
	crowd := tr.start("beside", "sent while a subscription was stalled")
	crowd.all.Wait()
	for _, key := range crowd.keys {
		for _, r := range tr.server.Receipts(key) {
			if r.Conn == tr.server.Receipts("stalled")[0].Conn {
				tr.Errorf("a command came on the connection of a subscription")
			}
		}
	}
	release()
	s.confirmed(1, "stalled")

	defer tr.server.Fault("silent", scripted.KeepSilent)()
	tr.endedInTime("a call to a silent server beside a subscription", tr.doShort(keyed("SET", "silent", "1")), context.DeadlineExceeded)
	tr.recovers("a call that was given up beside a subscription")
	tr.publish("stalled", "still there")
	s.messages(0, publication{"stalled", "still there"})
	s.correct()
	tr.start("after", "sent after a subscription was closed").all.Wait()
}

func severalAtOnce(tr *trial) {
	const size = 8
	conns := map[int]bool{}
	var all []*subscription
	for i := range size {
		own := "own " + strconv.Itoa(i)
		all = append(all, tr.subscribe("shared", own))
		conns[tr.server.Receipts(own)[0].Conn] = true
	}
	if len(conns) != size {
		tr.Errorf("%d subscriptions came on %d connections, want one each", size, len(conns))
	}
	if n := tr.publish("shared", "to all"); n != size {
		tr.Errorf("PUBLISH reached %d of %d subscriptions, want all", n, size)
	}
	for i, s := range all {
		tr.publish("own "+strconv.Itoa(i), "to one")
		s.messages(0, publication{"shared", "to all"}, publication{"own " + strconv.Itoa(i), "to one"})
	}
	for _, s := range all[:size/2] {
		s.correct()
	}
	for i, s := range all[size/2:] {
		own := "own " + strconv.Itoa(size/2+i)
		tr.publish(own, "still there")
		s.messages(2, publication{own, "still there"})
		s.correct()
	}
}

func usedAtOnce(tr *trial) {
	const users, rounds = 8, 20
	s := tr.subscribe()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for round := range rounds {
				id := strconv.Itoa(user) + "/" + strconv.Itoa(round)
				if out := s.tryAdd(ctx, "kept "+id, "removed "+id); out.err != nil {
					tr.Errorf("Add beside others = %v, want no error", out.err)
					return
				}
				out := bounded(ctx, func() outcome { return outcome{err: s.it.Remove(ctx, "removed "+id)} })
				if out.err != nil {
					tr.Errorf("Remove beside others = %v, want no error", out.err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := len(s.await(driver.Confirmed, 2*users*rounds)); n != 2*users*rounds {
		tr.Errorf("%d users asked for %d channels, and %d were confirmed", users, 2*users*rounds, n)
	}
	var want []publication
	for user := range users {
		id := strconv.Itoa(user) + "/" + strconv.Itoa(rounds-1)
		if !tr.server.AwaitSubscribers("removed "+id, 0) {
			tr.Fatalf("a channel was removed, and the server never heard of it")
		}
		tr.publish("removed "+id, "unheard")
		tr.publish("kept "+id, "heard")
		want = append(want, publication{"kept " + id, "heard"})
	}
	s.messages(0, want...)

	for range users { // they may fail now, and have to return
		all.Go(func() { tr.returned("Add beside Close", s.tryAdd(ctx, "late")) })
	}
	s.close()
	all.Wait()
	s.correct()
}

// leavesNothing closes subscriptions in every state. The server's connections show
// what is left there, and the goroutines what is left here.
func leavesNothing(tr *trial) {
	const size = 16
	tr.flushMessages() // so that the client has whatever it starts once
	conns, goroutines := tr.server.Conns(), tr.goroutines()
	states := []struct {
		name string
		end  func(s *subscription)
	}{
		{"closed in good health", func(*subscription) {}},
		{"closed after the connection was cut", func(s *subscription) { tr.server.Cut(); s.ended("the connection was cut") }},
		{"closed while a channel was asked for", func(s *subscription) {
			s.addWithin(patience, "late")
		}},
		{"closed at a stalled server", func(s *subscription) {
			thaw := tr.server.Freeze()
			defer thaw()
			s.ask("late")
			s.close()
		}},
	}
	for _, state := range states {
		for range size {
			s := tr.subscribe("channel")
			state.end(s)
			s.close()
		}
		by := strconv.Itoa(size) + " subscriptions, " + state.name + ","
		tr.recovers(by)
		tr.nothingLeft(by, conns, goroutines)
	}

	thaw := tr.server.Freeze()
	defer thaw()
	for range size {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond)
		s, _ := tr.trySubscribe(ctx)
		cancel()
		if s != nil {
			s.close()
		}
	}
	thaw()
	tr.recovers("subscriptions that never came to be")
	tr.nothingLeft("subscriptions that never came to be", conns, goroutines)
}

func (tr *trial) nothingLeft(by string, conns, goroutines int) {
	tr.Helper()
	if !tr.server.AwaitConns(conns) {
		tr.Fatalf("%s left %d connections open", by, tr.server.Conns()-conns)
	}
	if n, gone := tr.falls(goroutines+spare, patience); !gone {
		tr.Fatalf("%s left %d goroutines behind:\n%s", by, n-goroutines, profile())
	}
}
