package redlock

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

// FakeNode returns a node in memory, for the examples, which see the package from
// outside and may not require a client. Its name is its address.
func FakeNode(name string) driver.Node {
	return driver.Node{Name: name, Driver: fakenode.New(name)}
}

// WithRenewal is the default of programs, where a test's Locker has fixed leases.
func WithRenewal() LeaseOption { return leaseOption(func(o *settings) { o.renews = true }) }

// Crash makes a node's server refuse connections.
func Crash(n driver.Node) {
	n.Driver.(*fakeNode).Change(func(f *fakeNode) {
		f.Refused = fmt.Errorf("dial tcp %s: connect: connection refused: %w", n.Name, driver.ErrNotSent)
	})
}

// Hang makes a node silent until wake is called.
func Hang(n driver.Node) (wake func()) {
	awake := make(chan struct{})
	n.Driver.(*fakeNode).Change(func(f *fakeNode) {
		f.Hold = func(string) <-chan struct{} { return awake }
	})
	return func() { close(awake) }
}

// Flush makes a node forget its keys.
func Flush(n driver.Node) {
	n.Driver.(*fakeNode).Change(func(f *fakeNode) { clear(f.Keys) })
}

// Refuse makes a node answer a command with an error reply.
func Refuse(n driver.Node, command, line string) {
	n.Driver.(*fakeNode).Change(func(f *fakeNode) { f.Answer = failing(command, line) })
}

// LimitMemory gives a node a full memory's policy, as "maxmemory-policy" does.
func LimitMemory(n driver.Node, policy string) {
	n.Driver.(*fakeNode).Change(func(f *fakeNode) {
		f.Info = "role:master\r\nmaxmemory:104857600\r\nmaxmemory_policy:" + policy + "\r\n"
	})
}

// Keys returns the keys at a node.
func Keys(n driver.Node) (keys []string) {
	n.Driver.(*fakeNode).Change(func(f *fakeNode) { keys = slices.Sorted(maps.Keys(f.Keys)) })
	return keys
}
