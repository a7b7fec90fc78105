// Package scripts holds the Lua that nodes run, one file a script with its
// contract on top, and builds the commands that run it.
package scripts

import (
	_ "embed"

	"github.com/quorumlock/quorumlock/driver"
)

// Script is one script and its name in a node's script cache.
type Script struct {
	Source string
	// Digest is the SHA-1 of the source. It is written down rather than computed,
	// for SHA-1 may not be called in FIPS mode; a test compares the two.
	Digest string
}

//go:embed release.lua
var release string

//go:embed hold.lua
var hold string

// The scripts.
var (
	Release = &Script{release, "cb35c3710fedf14912830c8befe0b1dc11bb9f56"}
	Hold    = &Script{hold, "4470dfa4b545b409a32a1c74fc7076f7a6529eae"}
)

var byDigest = map[string]*Script{Release.Digest: Release, Hold.Digest: Hold}

// Call returns the command that runs s by its digest on one key. The arguments are
// put in the memory of args; they are boxed by the caller, who may use the boxes for
// several commands.
func (s *Script) Call(args []any, keyAndRest ...any) driver.Command {
	args = append(args[:0], "EVALSHA", s.Digest, "1")
	return driver.Command{Args: append(args, keyAndRest...), FirstKey: 3, Keys: 1}
}

// WithSource returns cmd as a node gets it that does not know its script: with the
// source, which the node then keeps. A command that runs no script stays as it is.
func WithSource(cmd driver.Command) driver.Command {
	if cmd.Args[0] != any("EVALSHA") {
		return cmd
	}
	args := append([]any(nil), cmd.Args...)
	args[0], args[1] = "EVAL", byDigest[args[1].(string)].Source
	cmd.Args = args
	return cmd
}
