package drivertest

import (
	"fmt"
	"slices"

	"github.com/quorumlock/quorumlock/driver"
)

// keyed is a command about one key.
func keyed(name, key string, rest ...string) driver.Command {
	return command(1, 1, append([]string{name, key}, rest...)...)
}

// keyless is a command that has no key.
func keyless(args ...string) driver.Command {
	return command(0, 0, args...)
}

// canned asks for a canned reply, or for the error reply that it spells.
func canned(script, key string) driver.Command {
	return command(3, 1, "EVAL", script, "1", key)
}

func command(firstKey, keys int, args ...string) driver.Command {
	boxed := make([]any, len(args))
	for i, arg := range args {
		boxed[i] = arg
	}
	return driver.Command{Args: boxed, FirstKey: firstKey, Keys: keys}
}

// describe names commands in a message, briefly.
func describe(cmds []driver.Command) string {
	switch len(cmds) {
	case 0:
		return "nothing"
	case 1:
		return fmt.Sprintf("%.60q", cmds[0].Args)
	}
	return fmt.Sprintf("%.60q and %d more", cmds[0].Args, len(cmds)-1)
}

func sameCommand(a, b driver.Command) bool {
	return slices.Equal(a.Args, b.Args) && a.FirstKey == b.FirstKey && a.Keys == b.Keys && a.Blocks == b.Blocks
}
