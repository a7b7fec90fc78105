package drivertest

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// renewerCases are for a driver that is a [driver.Renewer] as well.
var renewerCases = []testCase{
	{"each Renew costs one connection, and leaves none of those before", renewed},
	{"a call under way outlives a Renew, and its connection does not", renewedUnderWay},
	{"a call that waits for its connection outlives a Renew", renewedWhileConnecting},
	{"a command that blocks leaves no connection behind a Renew", renewedAfterBlocking},
}

// renewedSubscriptionCases are for one that is a [driver.Subscriber] besides.
var renewedSubscriptionCases = []testCase{
	{"a Renew ends subscriptions, and later ones go over new connections", renewedSubscription},
}

func (tr *trial) renew() {
	tr.Helper()
	out := within(patience, func(context.Context) error {
		tr.Driver.(driver.Renewer).Renew() //nolint:forcetypeassert // there are no such cases for others
		return nil
	})
	if errors.Is(out.err, errHung) {
		tr.Fatalf("Renew %v", out.err)
	}
}

// conn returns the connection over which the first command with this key came.
func (tr *trial) conn(key string) int {
	tr.Helper()
	received := tr.server.Receipts(key)
	if len(received) == 0 {
		tr.Fatalf("the server never received a command with key %q", key)
	}
	return received[0].Conn
}

// renewed has several connections at first, as a driver has them whose callers were many at once.
func renewed(tr *trial) {
	tr.do(keyed("GET", "warm"))
	few := tr.server.Conns() // a client may have one more for itself
	var callers sync.WaitGroup
	var keys []string
	var releases []func()
	for i := range mayRemain {
		key := "crowd " + strconv.Itoa(i)
		keys = append(keys, key)
		releases = append(releases, tr.server.Fault(key, scripted.KeepSilent))
		callers.Go(func() {
			if out := tr.doPatient(keyed("GET", key)); out.err != nil {
				tr.Errorf("one of %d calls at once = %v, want its reply", mayRemain, out.err)
			}
		})
	}
	all := tr.server.Await(keys...)
	for _, release := range releases {
		release()
	}
	callers.Wait()
	if !all {
		tr.Fatalf("the server has not received %d calls at once within %v", mayRemain, patience)
	}
	for i := range 10 {
		opened := tr.server.Opened()
		tr.renew()
		if n := tr.server.Opened(); n != opened && !tr.Restless {
			tr.Errorf("Renew has made %d connections, want none", n-opened)
		}
		over := map[int]bool{}
		for again := range 3 {
			key := "renewed " + strconv.Itoa(i) + " " + strconv.Itoa(again)
			tr.do(keyed("SET", key, "1"))
			conn := tr.conn(key)
			if over[conn] = true; conn <= opened {
				tr.Errorf("call %d after a Renew came over connection %d, but %d were made before", again+1, conn, opened)
			}
		}
		if n := tr.server.Opened() - opened; len(over) != 1 || n != 1 && !tr.Restless {
			tr.Errorf("a Renew and three calls have made %d connections and used %d, want 1", n, len(over))
		}
	}
	if !tr.server.AwaitConns(few) {
		tr.Errorf("%d connections are open after Renew and one call, want %d as at first: those before are closed", tr.server.Conns(), few)
	}
}

func renewedUnderWay(tr *trial) {
	tr.do(keyed("GET", "warm"))
	few := tr.server.Conns()
	for i := range 3 {
		slow := "slow " + strconv.Itoa(i)
		release := tr.server.Fault(slow, scripted.KeepSilent)
		defer release()
		returned := make(chan outcome, 1)
		go func() { returned <- tr.doPatient(keyed("SET", slow, "1"), keyed("GET", slow)) }()
		if !tr.server.Await(slow) {
			tr.Fatalf("the server has not received a call within %v", patience)
		}
		old := tr.conn(slow)
		for later := range 3 {
			tr.renew()
			tr.do(keyed("SET", "beside "+slow+" "+strconv.Itoa(later), "1"))
		}
		release()
		out := <-returned
		if out.err != nil {
			tr.Errorf("a call that was under way at a Renew = %v, want its replies", out.err)
		} else {
			tr.expect(out, text("OK"), text("1"))
		}
		for later := range 3 {
			key := "behind " + slow + " " + strconv.Itoa(later)
			tr.do(keyed("SET", key, "1"))
			if tr.conn(key) == old {
				tr.Errorf("a call came over the connection of one that was under way at a Renew")
			}
		}
	}
	if !tr.server.AwaitConns(few) {
		tr.Errorf("%d connections are open, want %d as at first: those are closed whose calls were under way at a Renew", tr.server.Conns(), few)
	}
}

func renewedWhileConnecting(tr *trial) {
	tr.do(keyed("GET", "warm"))
	thaw := tr.server.Freeze()
	defer thaw()
	tr.renew()
	opened := tr.server.Opened()
	returned := make(chan outcome, 1)
	go func() { returned <- tr.doWithin(4*patience, keyed("SET", "connecting", "1")) }()
	tr.server.AwaitOpened(opened) // or, on a Cluster, the driver asks for its map first
	tr.renew()
	thaw()
	if out := <-returned; out.err != nil {
		tr.Errorf("a call that waited for its connection at a Renew = %v, want its reply", out.err)
	}
	tr.sentOnce("connecting")
}

func renewedAfterBlocking(tr *trial) {
	for i := range 3 {
		blocking := keyless("WAIT", "0", strconv.Itoa(100+i))
		blocking.Blocks = true
		tr.do(blocking)
		opened := tr.server.Opened()
		tr.renew()
		blocking.Args = []any{"WAIT", "0", strconv.Itoa(200 + i)}
		tr.do(blocking)
		if conn := tr.conn(strconv.Itoa(200 + i)); conn <= opened {
			tr.Errorf("a command that blocks came over connection %d after a Renew, but %d were made before", conn, opened)
		}
	}
}

func renewedSubscription(tr *trial) {
	for i := range 3 {
		channel := "channel " + strconv.Itoa(i)
		s := tr.subscribe(channel)
		tr.renew()
		s.ended("Renew")
		if ends := s.of(driver.Ended); len(ends) == 1 && !errors.Is(ends[0].Err, driver.ErrRenewed) {
			tr.Errorf("a subscription that Renew has ended says %q, want that it was driver.ErrRenewed", ends[0].Err)
		}
		anew := tr.subscribe(channel)
		tr.publish(channel, "after")
		anew.messages(0, publication{channel, "after"})
		anew.correct()
		s.correct()
		if n := len(s.of(driver.Message)); n != 0 {
			tr.Errorf("a subscription that Renew has ended has heard %d messages", n)
		}
	}
}
