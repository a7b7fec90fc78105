package driver

import (
	"context"
	"fmt"
)

// Subscriber is an optional interface of a [Driver]. With it, a release wakes waiters;
// without it, they poll.
type Subscriber interface {
	// Subscribe opens a subscription, to no channel yet, on a connection of its own:
	// what is slow there holds up no [Driver.Do]. It returns within 50ms of ctx's end.
	// The subscription outlives ctx.
	//
	// onNotice receives all notices, in order and one call at a time, on a goroutine of
	// the driver. It does not block, and calls no method of the Subscription.
	Subscribe(ctx context.Context, onNotice func(Notice)) (Subscription, error)
}

// Subscription is a connection that receives the messages of channels. Its methods are safe
// for concurrent use. It does not reconnect: once it has [Ended], open another.
type Subscription interface {
	// Add subscribes to channels without waiting for the node: a [Confirmed] comes for
	// each. They go out together, each in a command of its own, so that refusing one
	// does not affect the others. Add returns within 50ms of ctx's end. After an error
	// the Subscription has ended or is about to.
	Add(ctx context.Context, channels ...string) error

	// Remove unsubscribes from channels, in the same way. Nothing confirms it.
	Remove(ctx context.Context, channels ...string) error

	// Close ends the subscription and all that it has started. It waits at most 50ms for a
	// silent node. Once it has returned, onNotice is not called any more; so onNotice must
	// not call it.
	Close() error
}

// Notice is an event of a [Subscription].
type Notice struct {
	Kind    NoticeKind
	Channel string // of Confirmed and Message
	Payload string // of Message
	Err     error  // of Refused and Ended: why
}

// NoticeKind is the kind of a [Notice].
type NoticeKind uint8

// The kinds of notices.
const (
	// Confirmed: messages that are published on the channel from now on will arrive.
	Confirmed NoticeKind = iota + 1
	// Message: a message was published on the channel.
	Message
	// Refused: the node refuses a channel of an Add, without naming it. Err is a
	// [*ServerError]. The other channels are not affected.
	Refused
	// Ended: the connection is gone. It is the last notice, and does not come after
	// Close.
	Ended
)

func (k NoticeKind) String() string {
	names := [...]string{"nothing", "confirmed", "message", "refused", "ended"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("unknown (%d)", k)
}
