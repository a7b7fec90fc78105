package redlock

import (
	"fmt"

	"github.com/quorumlock/quorumlock/driver"
)

// The tasks. Their commands and their replies belong together, so they stand here
// side by side.
var (
	// acquire sets the key where it is missing. The reply is what was there before:
	// nothing, or our own token from an earlier send whose reply was lost.
	acquire = &task{name: "acquire", tries: true, sets: true, votes: true, finds: true, tells: true, agrees: granted, read: readSet, fence: readFence, decided: begin}

	// adopt is acquire with a token of the user's own, which it prolongs. The last reply
	// says who has the key.
	adopt = &task{name: "acquire", tries: true, sets: true, votes: true, tells: true, agrees: granted, read: readHold(setAnew), fence: readFence, decided: begin}

	// inherit is acquire for the waiter who is handed a lock that is released.
	inherit = &task{name: "acquire", sets: true, votes: true, agrees: granted, read: readHold(takenOver), fence: readFence, decided: begin}

	extend = &task{name: "extend", sets: true, votes: true, prolongs: true, agrees: granted, read: readHold(setAnew), fence: readCarried, decided: prolong}

	// renew is extend on behalf of a [renewal].
	renew = &task{name: "renew", sets: true, votes: true, prolongs: true, agrees: granted, read: readHold(setAnew), fence: readCarried, decided: renewed, complete: report}

	// release deletes the key. A node that says that the token is not there is as
	// good as one that deleted it.
	release = &task{name: "release", agrees: func(a Answer) bool { return a != Failed }, read: readRelease}

	look = &task{name: "held", agrees: granted, read: readLook}
)

func granted(a Answer) bool { return a == Granted }

func readSet(token string, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.Nil:
		return Granted, nil
	case reply.Kind == driver.String && reply.Str == token:
		return Granted, nil
	case reply.Kind == driver.String:
		return Taken, nil
	default:
		return Failed, unexpected(reply)
	}
}

// The replies to a hold, up to the greatest that its task may get.
const (
	setAnew   = 2
	takenOver = 3 // the token that is given away had the key
)

// readHold reads what the nodes say to a hold.
func readHold(most int64) func(string, []driver.Reply) (Answer, error) {
	return func(_ string, replies []driver.Reply) (Answer, error) {
		switch reply := replies[0]; {
		case reply.Kind == driver.Integer && reply.Int >= 1 && reply.Int <= most:
			return Granted, nil
		case reply.Kind == driver.Integer && reply.Int == 0:
			return Taken, nil
		default:
			return Failed, unexpected(reply)
		}
	}
}

func readRelease(_ string, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.Integer && reply.Int == 1:
		return Granted, nil
	case reply.Kind == driver.Integer && reply.Int == 0:
		return Absent, nil
	default:
		return Failed, unexpected(reply)
	}
}

func readLook(token string, replies []driver.Reply) (Answer, error) {
	switch reply := replies[0]; {
	case reply.Kind == driver.String && reply.Str == token:
		return Granted, nil
	case reply.Kind == driver.String:
		return Taken, nil
	case reply.Kind == driver.Nil:
		return Absent, nil
	default:
		return Failed, unexpected(reply)
	}
}

// unexpected returns the server's refusal, or what is wrong with a reply that no
// server of this protocol gives. It does not show what the reply holds: that may be
// somebody's token.
func unexpected(reply driver.Reply) error {
	if err := reply.Err(); err != nil {
		return advised(err)
	}
	kinds := [...]string{"a nil", "an integer", "a string", "an array", "an error"}
	kind := "something unknown"
	if int(reply.Kind) < len(kinds) {
		kind = kinds[reply.Kind]
	}
	return fmt.Errorf("the node answered with %s that is not an answer to this command: is it a Redis server?", kind)
}
