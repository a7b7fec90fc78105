package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noArguments refuses arguments of a verb that has none, and says what such a word is not.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		return cobra.NoArgs(cmd, args) // it was to be one of them
	}
	why := ""
	if _, err := strconv.ParseBool(args[0]); err == nil {
		why = ": a flag that is on or off is switched off by --FLAG=false"
	} else if cmd.Flags().Lookup("nodes") != nil {
		why = ": nodes are given by --nodes"
	}
	return exitf(exitUsage, "%q takes no arguments, and %q is one%s", cmd.CommandPath(), args[0], why)
}

// joined are args with = in front of the value of a flag that may do without one: pflag takes none
// for it that stands behind a space. The next word is the value if the verb takes no arguments, or if
// it could be one: a key of that name goes behind "--", or stands first.
func joined(root *cobra.Command, args []string) []string {
	verb, rest, err := root.Find(args)
	if err != nil {
		return args
	}
	all := strings.Fields(verb.CommandPath())[1:]
	for i := 0; i < len(rest); i++ {
		word := rest[i]
		if word == "--" {
			return append(all, rest[i:]...)
		}
		all = append(all, word)
		flag := lastFlag(verb, word)
		switch {
		case flag == nil || i+1 == len(rest):
		case flag.NoOptDefVal == "": // it takes the next word, whatever that is
			i++
			all = append(all, rest[i])
		case flag.Value.Type() != "bool" && isValue(verb, flag, rest[i+1]):
			i++
			all[len(all)-1] += "=" + rest[i]
		}
	}
	return all
}

// lastFlag is the flag whose value may be the next word; nil: there is none.
func lastFlag(verb *cobra.Command, word string) *pflag.Flag {
	if name, ok := strings.CutPrefix(word, "--"); ok {
		return verb.Flag(name) // with = there is none of that name
	}
	if !strings.HasPrefix(word, "-") {
		return nil
	}
	letters := strings.TrimPrefix(word, "-")
	for i := range letters {
		flag := verb.Flags().ShorthandLookup(letters[i : i+1])
		if flag == nil || i == len(letters)-1 {
			return flag
		}
		if flag.NoOptDefVal == "" {
			return nil // the rest of the word is its value
		}
	}
	return nil
}

// isValue reports whether a word is the value of a flag that may do without: nobody watches a key
// that is called 2s, or takes 2 for one.
func isValue(verb *cobra.Command, flag *pflag.Flag, word string) bool {
	_, duration := time.ParseDuration(word)
	_, number := strconv.ParseFloat(word, 64)
	switch {
	case flag.Value.Type() == "duration" && (duration == nil || number == nil):
		return true
	case strings.HasPrefix(word, "-"):
		return false
	}
	return verb.Args != nil && verb.Args(verb, []string{word}) != nil
}
