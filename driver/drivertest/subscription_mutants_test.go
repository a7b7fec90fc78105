package drivertest

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

const (
	confirmedCase = "a channel is confirmed when the server has confirmed it"
	bytesCase     = "a message arrives with its channel and its payload as they are"
	orderCase     = "messages arrive in order and none is lost"
	thousandCase  = "1,000 channels in one Add are heard"
	removedCase   = "a channel that was removed is silent"
	refusedCase   = "a forbidden channel is refused and harms nothing else"
	droppedCase   = "a dropped connection is told once, at the end, and is not repaired"
	lostCase      = "a connection that is lost while channels are asked for has ended"
	closedCase    = "a closed subscription says nothing any more"
	stalledCase   = "a deadline ends Subscribe and Add at a stalled server"
	cancelCase    = "a cancel ends Subscribe at a stalled server"
	largeCase     = "a deadline ends an Add larger than the buffers"
	closeCase     = "Close does not wait for a stalled server"
	severalCase   = "several subscriptions have nothing to do with each other"
	nothingCase   = "a closed subscription leaves nothing behind"
)

// subscriptionMutants are subscribers that are correct but for one thing.
var subscriptionMutants = []mutant{
	{"confirms before the server does", opens(confirmsEarly).mutate, map[string]string{
		confirmedCase: "confirmed before the server had confirmed it",
	}},
	{"loses a message", filters(losesMessage).mutate, map[string]string{
		orderCase: `want "500" on "c"`,
	}},
	{"hears a later message first", filters(reordersMessages).mutate, map[string]string{
		orderCase: `want "500" on "c"`,
	}},
	{"hears a message twice", filters(duplicatesMessages).mutate, map[string]string{
		orderCase: `want "1" on "b"`,
	}},
	{"hears two things at once", filters(notifiesAtOnce).mutate, map[string]string{
		closedCase: "while another call of it was under way",
	}},
	{"trims what it hears", filters(trimsPayload).mutate, map[string]string{
		bytesCase: `is message`,
	}},
	{"goes on hearing after Close", opens(closesLate).mutate, map[string]string{
		closedCase:  "after Close had returned, with message",
		closeCase:   "after Close had returned",
		nothingCase: "connections open",
	}},
	{"tells of its own Close", opens(tellsClose).mutate, map[string]string{
		closedCase: "after Close had returned, with ended",
	}},
	{"keeps the connection after Close", opens(leavesOpen).mutate, map[string]string{
		nothingCase: "connections open",
	}},
	{"reports the end twice", filters(endsTwice).mutate, map[string]string{
		droppedCase: "onNotice was called after Ended, with ended",
		lostCase:    "onNotice was called after Ended, with ended",
	}},
	{"never reports the end", filters(neverEnds).mutate, map[string]string{
		droppedCase: "Ended had not come",
		lostCase:    "Ended had not come",
		largeCase:   "Ended had not come",
	}},
	{"reports the end without a reason", filters(endsWithoutReason).mutate, map[string]string{
		droppedCase: "Ended came without an error",
	}},
	{"repairs itself in silence", opens(repairs).mutate, map[string]string{
		droppedCase: "Ended had not come",
	}},
	{"repairs itself after it has ended", opens(repairsAndTells).mutate, map[string]string{
		droppedCase: "onNotice was called after Ended, with confirmed",
	}},
	{"ignores its context while it opens", opens(shakesHands).mutate, map[string]string{
		stalledCase: "Subscribe at a stalled server had not returned",
		cancelCase:  "Subscribe that was cancelled at a stalled server had not returned",
	}},
	{"ignores its context in Add", changes(addsForEver).mutate, map[string]string{
		largeCase: "Add of 20 MB at a stalled server had not returned",
	}},
	{"takes the context of Subscribe for its own", opens(diesWithContext).mutate, map[string]string{
		confirmedCase: "Add",
	}},
	{"asks for several channels in one command", changes(addsTogether).mutate, map[string]string{
		refusedCase:  "of the 2 channels that Add asked for 0 were confirmed",
		thousandCase: "want each in a command of its own",
	}},
	{"ends when a channel is refused", opens(endsWhenRefused).mutate, map[string]string{
		refusedCase: "ended: ",
	}},
	{"hides why a channel is refused", filters(hidesRefusals).mutate, map[string]string{
		refusedCase: "want a *driver.ServerError",
	}},
	{"removes nothing", changes(removesNothing).mutate, map[string]string{
		removedCase: "the server never received that the channel",
	}},
	{"waits for the server in Close", opens(saysGoodbye).mutate, map[string]string{
		closeCase: "want at most 50ms",
	}},
	{"shares a connection between subscriptions", func(p *pool) driver.Driver { return sharesConnection().mutate(p) }, map[string]string{
		severalCase: "8 subscriptions came on 1 connections",
	}},
}

func TestSubscriptionMutantsAreCaught(t *testing.T) { areCaught(t, subscriptionMutants) }
