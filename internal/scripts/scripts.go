// Package scripts holds the Lua for the nodes, one file a script with its contract on top, and builds the
// commands that run it.
package scripts

import (
	_ "embed"
	"strconv"

	"github.com/quorumlock/quorumlock/driver"
)

// Script is a script and its name in a node's script cache.
type Script struct {
	Source string
	// Digest is the SHA-1 of the source. It is written down rather than computed, for SHA-1 may not be
	// called in FIPS mode; a test compares the two.
	Digest string
}

//go:embed release.lua
var release string

//go:embed hold.lua
var hold string

//go:embed extend.lua
var extend string

//go:embed slot.lua
var slot string

//go:embed share.lua
var share string

//go:embed unshare.lua
var unshare string

//go:embed raise.lua
var raise string

//go:embed revoke.lua
var revoke string

//go:embed keep.lua
var keep string

//go:embed line.lua
var line string

//go:embed take.lua
var take string

//go:embed leave.lua
var leave string

//go:embed waits.lua
var waits string

//go:embed rights.lua
var rights string

//go:embed remember.lua
var remember string

//go:embed change.lua
var change string

// The scripts.
var (
	Release  = list(keep+release, "305596561243224d319b96a8e78b2c6142ada7dc")
	Hold     = list(hold, "f03decde89784117991ebc13a845261932768658")
	Extend   = list(extend, "350b5ab74c1fa448b1d0777c64f2ce5976ee3f38")
	Slot     = list(keep+line+slot, "919a7d0be7ce17ccaddcef7e7a486ea8d2da65f3")
	Share    = list(keep+line+share, "bd899c4b47bee200adbb6f7a1497217e642534a0")
	Unshare  = list(keep+unshare, "8fa9f127b161b1a340d7e270415f28fd625c352c")
	Raise    = list(raise, "720628c3d7479ad9d21c47af34fb30a47331703b")
	Revoke   = list(revoke, "79aa4b8ff883cbadbccda8886c65f5c558537526")
	Take     = list(keep+line+take, "9f40eda0258bcf9c6a1fa6bb0519ee629f1da68a")
	Leave    = list(keep+line+leave, "f7e922bf59339ef9481ebb231ea91877f79b6dde")
	Waits    = list(waits, "18a5834cf01f6bba9acd31dc75ddf99f7947dc68")
	Rights   = list(rights, "8503c49d70533fa14b374176db531a6dc9ead42c")
	Remember = list(remember, "25bc97eeb145480cc0367dcd0d772d2716356b3f")
	Change   = list(change, "212009bcb232f62167143ef5b8c447906af15510")
)

var byDigest = map[string]*Script{}

// list makes a script that [WithSource] finds.
func list(source, digest string) *Script {
	s := &Script{source, digest}
	byDigest[digest] = s
	return s
}

// Call appends to args the call of s by its digest, for n keys. The caller appends the keys, and the
// script's own arguments after them.
func (s *Script) Call(args []any, keys int) []any {
	return append(args, "EVALSHA", s.Digest, strconv.Itoa(keys))
}

// One returns the command that runs s on one key, in the memory of args. The caller boxes the arguments, and
// may use the boxes for several commands.
func (s *Script) One(args []any, keyAndRest ...any) driver.Command {
	return driver.Command{Args: append(s.Call(args[:0], 1), keyAndRest...), FirstKey: 3, Keys: 1}
}

// WithSource returns cmd with the script's source, which the node then keeps: for a node that does not know
// the script. A command without a script stays as it is.
func WithSource(cmd driver.Command) driver.Command {
	if cmd.Args[0] != any("EVALSHA") {
		return cmd
	}
	args := append([]any(nil), cmd.Args...)
	args[0], args[1] = "EVAL", byDigest[args[1].(string)].Source
	cmd.Args = args
	return cmd
}
