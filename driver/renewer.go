package driver

import "errors"

// Renewer is an optional interface of a [Driver] that keeps connections between calls. With it, a node is
// found again whose address leads to another server than before (a Service, a load balancer, a name), while
// the old server still serves its old connections. Without it, the driver stays at the old server for as
// long as those connections live.
//
// The core calls Renew before it probes a failed or unfit node, so a node that stays unfit costs one
// connection for each probe.
type Renewer interface {
	// Renew gives up all connections. A Do or Subscribe that begins after Renew has returned goes over a
	// connection that was dialed after Renew was called, so a name is looked up anew. Idle connections are
	// closed. A call under way goes on to its end, and its connection is not used again. Subscriptions end,
	// with a [Notice] of the kind [Ended].
	//
	// Renew connects nothing, and does not wait for the network.
	Renew()
}

// ErrRenewed is matched by the error of a [Notice] that ends a [Subscription] because of [Renewer]'s Renew.
var ErrRenewed = errors.New("the connections to the node are made anew")
