package inspect

import (
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A burial puts a tombstone in the place of a key's value.
type burial struct {
	key     any // the nodes' name
	value   string
	readers []string      // one of them has to be there, if value is [protocol.SharedValue]
	token   string        // of the tombstone
	endless bool          // the key was seen without an expiry
	longest time.Duration // the greatest time left of the tombstone
}

// newToken returns the value of a tombstone, which nobody can guess.
func newToken(reason string) string {
	if reason != "" {
		reason = ":" + reason
	}
	return protocol.RevokedPrefix + random.Nonce() + reason
}

// errNoRevoke is the refusal of nodes that cannot compare and set.
var errNoRevoke = fmt.Errorf("%w to revoke locks on: it runs no scripts, and has no SET with IFEQ (Valkey 8.1, Redis 8.4)", fault.ErrNode)

// encode returns the commands that put the tombstone at a node. Every tombstone at the key is there for the least time
// from now.
func (b *burial) encode(d protocol.Dialect, least time.Duration) ([]driver.Command, error) {
	switch {
	case !d.Scriptless:
		return []driver.Command{b.script(least)}, nil
	case b.value == protocol.SharedValue:
		return nil, d.Refuses(protocol.Upgrade, false)
	case !d.Swaps:
		return nil, fault.With(errNoRevoke, d.AllowScripts())
	}
	var cmds []driver.Command
	command := func(args ...any) { cmds = append(cmds, driver.Command{Args: args, FirstKey: 1, Keys: 1}) }
	if b.endless {
		command("SET", b.key, b.token, "IFEQ", b.value, "PX", protocol.Milliseconds(b.longest))
	} else {
		command("SET", b.key, b.token, "IFEQ", b.value, "KEEPTTL")
	}
	if least > 0 { // never cut, whoever has the key
		command("PEXPIRE", b.key, protocol.Milliseconds(least), "GT")
	}
	command("GET", b.key)
	command("PTTL", b.key)
	return cmds, nil
}

func (b *burial) script(least time.Duration) driver.Command {
	keys := []any{b.key}
	if b.value == protocol.SharedValue {
		keys = append(keys, protocol.NewSides(b.key.(string)).Readers)
	}
	args := append(scripts.Revoke.Call(nil, len(keys)), keys...)
	args = append(args, b.value, b.token, protocol.Milliseconds(b.longest), protocol.Milliseconds(least))
	if b.value == protocol.SharedValue {
		for _, token := range b.readers {
			args = append(args, token)
		}
	}
	return driver.Command{Args: args, FirstKey: 3, Keys: len(keys)}
}

// decode reads in a node's replies what has the key there.
func (b *burial) decode(g *grave, replies []driver.Reply) error {
	for _, reply := range replies {
		if reply.Kind == driver.Failure {
			return protocol.Unexpected(reply)
		}
	}
	last := replies[len(replies)-1]
	if g.dialect.Scriptless {
		_, g.there = protocol.Revoked(replies[len(replies)-2].Str)
	} else {
		if last.Kind != driver.Array || len(last.Elems) != 2 {
			return protocol.Unexpected(last)
		}
		g.there, last = last.Elems[0].Int == 1, last.Elems[1]
	}
	const missing = -2
	if last.Kind != driver.Integer {
		return protocol.Unexpected(last)
	}
	g.taken, g.left = !g.there && last.Int != missing, protocol.TimeLeft(last)
	return nil
}

// encodeFree returns the commands that delete the tombstone, and announce the free key.
func (b *burial) encodeFree(d protocol.Dialect) ([]driver.Command, error) {
	switch {
	case d.Deletes != protocol.ByScript:
		return []driver.Command{
			{Args: d.Deletes.Encode(nil, b.key, b.token), FirstKey: 1, Keys: 1},
			{Args: []any{"PUBLISH", protocol.WakeChannel + b.key.(string), ""}},
		}, nil
	case d.Scriptless:
		return nil, d.Limits()
	}
	return []driver.Command{scripts.Release.One(nil, b.key, b.token, protocol.WakeChannel, "1")}, nil
}

// decodeFree reports whether the tombstone was deleted.
func (b *burial) decodeFree(d protocol.Dialect, replies []driver.Reply) (deleted bool, err error) {
	if d.Deletes != protocol.ByScript {
		replies = d.Deletes.Decode(replies)
	}
	if replies[0].Kind != driver.Integer {
		return false, protocol.Unexpected(replies[0])
	}
	return protocol.DeletedBits(replies[0].Int) != 0, nil
}
