package protocol

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// Tombstone returns a tombstone that nobody can guess.
func (r Random) Tombstone(reason string) string {
	if reason != "" {
		reason = ":" + reason
	}
	return RevokedPrefix + r.Nonce() + reason
}

// A Revocation puts a tombstone in the place of a key's value.
type Revocation struct {
	Key       any // the nodes' name
	Value     string
	Readers   []string // one of them has to be there, if Value is [SharedValue]
	Tombstone string
	Endless   bool          // the key was seen without an expiry
	Longest   time.Duration // the greatest time left of the tombstone
}

// errNoRevoke is the refusal of nodes that cannot compare and set.
var errNoRevoke = fmt.Errorf("%w to revoke locks on: it runs no scripts, and has no SET with IFEQ (Valkey 8.1, Redis 8.4)", fault.ErrNode)

// Encode returns the commands for a node. Every tombstone at the key is there for the least time
// from now.
func (r *Revocation) Encode(d Dialect, least time.Duration) ([]driver.Command, error) {
	switch {
	case !d.Scriptless:
		return []driver.Command{r.script(least)}, nil
	case r.Value == SharedValue:
		return nil, fault.With(errNoScripts, d.allowScripts())
	case !d.Swaps:
		return nil, fault.With(errNoRevoke, d.allowScripts())
	}
	var cmds []driver.Command
	command := func(args ...any) {
		cmds = append(cmds, driver.Command{Args: args, FirstKey: 1, Keys: 1})
	}
	if r.Endless {
		command("SET", r.Key, r.Tombstone, "IFEQ", r.Value, "PX", Milliseconds(r.Longest))
	} else {
		command("SET", r.Key, r.Tombstone, "IFEQ", r.Value, "KEEPTTL")
	}
	if least > 0 { // never cut, whoever has the key
		command("PEXPIRE", r.Key, Milliseconds(least), "GT")
	}
	command("GET", r.Key)
	command("PTTL", r.Key)
	return cmds, nil
}

func (r *Revocation) script(least time.Duration) driver.Command {
	keys := []any{r.Key}
	if r.Value == SharedValue {
		keys = append(keys, NewSides(r.Key.(string)).Readers)
	}
	args := append(scripts.Revoke.Call(nil, len(keys)), keys...)
	args = append(args, r.Value, r.Tombstone, Milliseconds(r.Longest), Milliseconds(least))
	if r.Value == SharedValue {
		for _, token := range r.Readers {
			args = append(args, token)
		}
	}
	return driver.Command{Args: args, FirstKey: 3, Keys: len(keys)}
}

// A Grave is a node's key after a revocation.
type Grave struct {
	Tombstone bool
	Taken     bool          // something else has the key
	Left      time.Duration // the key's greatest time left, from the reply on; 0: no expiry, or no key
}

// Decode reads the node's replies.
func (r *Revocation) Decode(d Dialect, replies []driver.Reply) (g Grave, err error) {
	for _, reply := range replies {
		if reply.Kind == driver.Failure {
			return g, Unexpected(reply)
		}
	}
	last := replies[len(replies)-1]
	if d.Scriptless {
		value := replies[len(replies)-2]
		_, g.Tombstone = Revoked(value.Str)
	} else {
		if last.Kind != driver.Array || len(last.Elems) != 2 {
			return g, Unexpected(last)
		}
		g.Tombstone = last.Elems[0].Int == 1
		last = last.Elems[1]
	}
	const missing = -2
	if last.Kind != driver.Integer {
		return g, Unexpected(last)
	}
	g.Taken = !g.Tombstone && last.Int != missing
	g.Left = timeLeft(last)
	return g, nil
}

// EncodeFree returns the commands that delete the tombstone, and announce the free key.
func (r *Revocation) EncodeFree(d Dialect) ([]driver.Command, error) {
	switch {
	case d.Deletes != ByScript:
		return []driver.Command{
			{Args: d.Deletes.encode(nil, r.Key, r.Tombstone), FirstKey: 1, Keys: 1},
			{Args: []any{"PUBLISH", WakeChannel + r.Key.(string), ""}},
		}, nil
	case d.Scriptless:
		return nil, d.Limits()
	}
	return []driver.Command{scripts.Release.One(nil, r.Key, r.Tombstone, WakeChannel, "1")}, nil
}

// DecodeFree reports whether the tombstone was deleted.
func (r *Revocation) DecodeFree(d Dialect, replies []driver.Reply) (deleted bool, err error) {
	if d.Deletes != ByScript {
		replies = d.Deletes.decode(replies)
	}
	sum := replies[0]
	if sum.Kind != driver.Integer {
		return false, Unexpected(sum)
	}
	return deletedBits(sum.Int) != 0, nil
}
