package drivertest

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// subscriptionMutants are subscribers that are correct but for one thing.
var subscriptionMutants = []mutant{
	{"confirms before the server does", reworks(confirmsEarly), map[string]string{
		"a channel is confirmed when the server has confirmed it": "confirmed before the server had confirmed it",
	}},
	{"loses a message", passes(0, func(n driver.Notice) bool { return n.Payload == "500" }), map[string]string{
		"messages arrive in order and none is lost": `want "500" on "c"`,
	}},
	{"hears a later message first", reworks(reordersMessages), map[string]string{
		"messages arrive in order and none is lost": `want "500" on "c"`,
	}},
	{"hears a message twice", passes(2, is(driver.Message)), map[string]string{
		"messages arrive in order and none is lost": `want "1" on "b"`,
	}},
	{"hears two things at once", reworks(notifiesAtOnce), map[string]string{
		"a closed subscription says nothing any more": "while another call of it was under way",
	}},
	{"trims what it hears", rewrites(trimsPayload), map[string]string{
		"a message arrives with its channel and its payload as they are": `is message`,
	}},
	{"goes on hearing after Close", reworks(closesLate), map[string]string{
		"a closed subscription says nothing any more": "after Close had returned, with message",
		"Close does not wait for a stalled server":    "after Close had returned",
		"a closed subscription leaves nothing behind": "connections open",
	}},
	{"tells of its own Close", reworks(tellsClose), map[string]string{
		"a closed subscription says nothing any more": "after Close had returned, with ended",
	}},
	{"keeps the connection after Close", reworks(leavesOpen), map[string]string{
		"a closed subscription leaves nothing behind": "connections open",
	}},
	{"reports the end twice", passes(2, is(driver.Ended)), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "onNotice was called after Ended, with ended",
		"a connection that is lost while channels are asked for has ended":   "onNotice was called after Ended, with ended",
	}},
	{"never reports the end", passes(0, is(driver.Ended)), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "Ended had not come",
		"a connection that is lost while channels are asked for has ended":   "Ended had not come",
		"a deadline ends an Add larger than the buffers":                     "Ended had not come",
	}},
	{"reports the end without a reason", rewrites(endsWithoutReason), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "Ended came without an error",
	}},
	{"repairs itself in silence", repairs(false), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "Ended had not come",
	}},
	{"repairs itself after it has ended", repairs(true), map[string]string{
		"a dropped connection is told once, at the end, and is not repaired": "onNotice was called after Ended, with confirmed",
	}},
	{"ignores its context while it opens", opens(shakesHands).mutate, map[string]string{
		"a deadline ends Subscribe and Add at a stalled server": "Subscribe at a stalled server had not returned",
		"a cancel ends Subscribe at a stalled server":           "Subscribe that was cancelled at a stalled server had not returned",
	}},
	{"ignores its context in Add", reworks(addsForEver), map[string]string{
		"a deadline ends an Add larger than the buffers": "Add of 20 MB at a stalled server had not returned",
	}},
	{"takes the context of Subscribe for its own", reworks(diesWithContext), map[string]string{
		"a channel is confirmed when the server has confirmed it": "Add",
	}},
	{"asks for several channels in one command", reworks(addsTogether), map[string]string{
		"a forbidden channel is refused and harms nothing else": "of the 2 channels that Add asked for 0 were confirmed",
		"1,000 channels in one Add are heard":                   "want each in a command of its own",
	}},
	{"ends when a channel is refused", reworks(endsWhenRefused), map[string]string{
		"a forbidden channel is refused and harms nothing else": "ended: ",
	}},
	{"hides why a channel is refused", rewrites(hidesRefusals), map[string]string{
		"a forbidden channel is refused and harms nothing else": "want a *driver.ServerError",
	}},
	{"removes nothing", reworks(removesNothing), map[string]string{
		"a channel that was removed is silent": "the server never received that the channel",
	}},
	{"waits for the server in Close", reworks(saysGoodbye), map[string]string{
		"Close does not wait for a stalled server": "want at most 50ms",
	}},
	{"shares a connection between subscriptions", sharesConnection, map[string]string{
		"several subscriptions have nothing to do with each other": "8 subscriptions came on 1 connections",
	}},
}

func TestSubscriptionMutantsAreCaught(t *testing.T) { areCaught(t, subscriptionMutants) }
