package drivertest

import (
	"context"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// Subject is a driver under test and, beside it, another user of the same client.
type Subject struct {
	Driver driver.Driver

	// Stranger sends one command through the user's own client, as an application
	// beside the lock does, and returns its error. It is nil where the driver made
	// its client itself.
	Stranger func(ctx context.Context, args ...string) error

	// Deaf says that the connections are those of a client library which forgets what a
	// server has said when it hangs up, so that no driver can know it.
	Deaf bool

	// Restless says that the client library makes a connection of its own while it closes one, so
	// that no driver can prevent it.
	Restless bool
}

// Run runs the suite, one subtest a case. open returns a driver for the server at
// addr ("127.0.0.1:port"), made as a user would make it with the client's defaults;
// it registers its own clean-up with t.Cleanup. It is called once for each subtest,
// while the server at addr is well, and once before them, which shows whether the
// driver is a [driver.Subscriber] and a [driver.Renewer]: only then are there subtests for that.
func Run(t *testing.T, open func(t *testing.T, addr string) Subject) {
	for _, c := range casesFor(t, open(t, startServer(t).Addr()).Driver) {
		t.Run(c.name, func(t *testing.T) {
			c.try(t, func(addr string) Subject { return open(t, addr) })
		})
	}
}

// casesFor returns the cases that the driver has to pass.
func casesFor(r reporter, d driver.Driver) []testCase {
	all := cases
	_, subscribes := d.(driver.Subscriber)
	if subscribes {
		all = slices.Concat(all, subscriberCases)
	} else {
		r.Logf("the driver is no driver.Subscriber, so there are no subtests for subscriptions")
	}
	_, renews := d.(driver.Renewer)
	if renews {
		all = slices.Concat(all, renewerCases)
	} else {
		r.Logf("the driver is no driver.Renewer, so there are no subtests for connections that are given up")
	}
	if subscribes && renews {
		all = slices.Concat(all, renewedSubscriptionCases)
	}
	return all
}

// testCase is one phrase that a driver has to keep.
type testCase struct {
	name  string
	check func(tr *trial)
}

// cases are in the order in which a new driver is best mended: what it says, then
// when it returns, then what it does to others.
var cases = slices.Concat(
	replyCases,
	batchCases,
	contextCases,
	lossCases,
	connectCases,
	neighbourCases,
	remainsCases,
)

// subscriberCases are for a driver that is a [driver.Subscriber] as well.
var subscriberCases = slices.Concat(
	messageCases,
	endingCases,
	stallingCases,
	concurrencyCases,
)
