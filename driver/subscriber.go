package driver

import (
	"context"
	"fmt"
)

// Subscriber is what a [Driver] may implement besides, so that waiters hear of a
// release instead of asking again and again. Without it they ask.
type Subscriber interface {
	// Subscribe opens a subscription, to no channel yet, on a connection of its own:
	// what is slow there holds up no [Driver.Do]. It returns within 50ms of ctx's end.
	// Afterwards ctx has no more to say.
	//
	// All that happens is given to hear, in order and one call at a time, from a
	// goroutine of the driver. It does not block, and calls no method of the
	// Subscription.
	Subscribe(ctx context.Context, hear func(Notice)) (Subscription, error)
}

// Subscription is a connection that hears of channels. Its methods are safe for
// concurrent use. It is not repaired: once it has [Ended], open another.
type Subscription interface {
	// Add asks for channels, and does not wait for the node: a [Confirmed] comes for
	// each. Several go out at once, each in a command of its own, so that a
	// channel that is refused harms no other. It returns within 50ms of ctx's end. After
	// an error the Subscription is of no more use, and has ended or is about to.
	Add(ctx context.Context, channels ...string) error

	// Remove gives channels up, as Add asks for them. Nothing confirms it.
	Remove(ctx context.Context, channels ...string) error

	// Close ends the subscription and all that it has started, without waiting for a
	// silent node for longer than 50ms. hear is not called any more once it has
	// returned, so it must not be called from there.
	Close() error
}

// Notice is something that a [Subscription] has heard.
type Notice struct {
	Kind    NoticeKind
	Channel string // of Confirmed and Message
	Payload string // of Message
	Err     error  // of Refused and Ended: why
}

// NoticeKind tells what a [Notice] is about.
type NoticeKind uint8

// The kinds of notices.
const (
	// Confirmed: what is published on the channel from now on will be heard.
	Confirmed NoticeKind = iota + 1
	// Message: somebody has published on the channel.
	Message
	// Refused: the node refuses a channel that was asked for, and does not say which;
	// Err is a [*ServerError]. The others are not affected.
	Refused
	// Ended: the connection is gone. It comes once, is the last, and does not come
	// after Close.
	Ended
)

func (k NoticeKind) String() string {
	names := [...]string{"nothing", "confirmed", "message", "refused", "ended"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("unknown (%d)", k)
}
