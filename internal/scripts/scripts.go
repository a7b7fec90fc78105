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
	Release  = list(release, "641d3f66a1855c20561fc20562c65366be7faaad")
	Hold     = list(hold, "5e4a79d1bbfa712efe74eb855dff5e33949cea3e")
	Extend   = list(extend, "eabb6a5bf800520dfbd007d6ea266de488d1205e")
	Slot     = list(line+slot, "f535c702ffa0647d89a27657fb5671124b379088")
	Share    = list(line+share, "f6077d13523021b450ec647aa09780a3aa8c32a1")
	Unshare  = list(unshare, "b0f79e8110b72eb335e36d7b1581331f72930521")
	Raise    = list(raise, "fbff27c98a70bf99575b46101c2ed63640197a2d")
	Revoke   = list(revoke, "05e2707c77f6bdf503c706d814c02d690187da67")
	Take     = list(line+take, "64cdf29cbe0b353f629854dfbe2e73212cefc121")
	Leave    = list(line+leave, "0168e0e5dd970767212195a1c5bbd079fd03401f")
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
