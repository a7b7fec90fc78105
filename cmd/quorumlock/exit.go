package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
)

// The exit codes. They are part of the command's promises: see [exitCodes].
const (
	exitOK          = 0
	exitUsage       = 64
	exitUnavailable = 69
	exitSoftware    = 70
	exitIO          = 74
	exitTaken       = 75
	exitForbidden   = 77
	exitConfig      = 78
	exitLost        = 79
)

// exitCodes is what every code means, in the words of the help.
var exitCodes = []struct{ code, name, means string }{
	{"0", "", "done; of doctor: fit"},
	{"1, 2, 3", "", "of doctor: warnings, unfit, cannot tell; 1 of a --check: not as it should be"},
	{fmt.Sprint(exitUsage), "EX_USAGE", "a flag or an argument is not valid: nothing was done"},
	{fmt.Sprint(exitUnavailable), "EX_UNAVAILABLE", "too few nodes answer, or several asked at once: nobody can say who has a key"},
	{fmt.Sprint(exitSoftware), "EX_SOFTWARE", "a fault that none of these describes: please report it"},
	{fmt.Sprint(exitIO), "EX_IOERR", "of run: the lease file cannot be written"},
	{fmt.Sprint(exitTaken), "EX_TEMPFAIL", "somebody else has the key (of run: -E changes it)"},
	{fmt.Sprint(exitForbidden), "EX_NOPERM", "a node refuses the user or a command"},
	{fmt.Sprint(exitConfig), "EX_CONFIG", "no nodes, a profile or variable that is not valid, or nodes that are unfit"},
	{fmt.Sprint(exitLost), "", "of run: the lock was lost while the program ran, which was stopped; whatever it returned"},
	{"126, 127", "", "of run: the program cannot be executed, or was not found; no lock was taken"},
	{"128+n", "", "ended by signal n; of run: the program was, while the lock was held"},
}

// A codedError is an error with the code that the process ends with.
type codedError struct {
	code int
	error
}

func (e *codedError) Unwrap() error { return e.error }

// exit gives an error its code.
func exit(code int, err error) error { return &codedError{code, err} }

// exitf makes an error with a code.
func exitf(code int, format string, args ...any) error {
	return exit(code, fmt.Errorf(format, args...))
}

// A verdict is the code of a verb that has said all that there is to say.
type verdict struct{ code int }

func (v *verdict) Error() string { return fmt.Sprintf("verdict %d", v.code) }

// codeOf is the code of an error: its own, or by what it matches.
func codeOf(err error) int {
	var coded *codedError
	var quiet *verdict
	switch {
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &coded):
		return coded.code
	}
	for _, known := range []struct {
		err  error
		code int
	}{
		{redlock.ErrOption, exitUsage},
		{redlock.ErrNodeSet, exitConfig},
		{redlock.ErrPermits, exitConfig},
		{redlock.ErrLost, exitLost},
		{redlock.ErrTaken, exitTaken},
		{redlock.ErrContended, exitUnavailable},
		{redlock.ErrNoQuorum, exitUnavailable},
		{redlock.ErrExpired, exitUnavailable},
		{context.DeadlineExceeded, exitUnavailable},
		{redlock.ErrNode, exitConfig},
	} {
		switch {
		case !errors.Is(err, known.err):
		case known.code == exitUnavailable && forbids(err):
			return exitForbidden
		default:
			return known.code
		}
	}
	if forbids(err) {
		return exitForbidden
	}
	return exitSoftware
}

// optionFlags are the flags for the options of the library.
var optionFlags = [][2]string{
	{"KeyPrefix", "--prefix"},
	{"TTL", "--ttl"},
	{"RestartGuard", "--guard"},
	{"ClockGuard", "--clock-guard"},
	{"NodeTimeout", "--node-timeout"},
	{"DriftFactor", "--drift"},
	{"NodeSet", "--node-set"},
	{"Durability", "--replicated"},
	{"MaxWait", "--wait"},
	{"MaxHold", "--max-hold"},
	{"Owner", "--name"},
	{"Grace", "--grace"},
}

// inFlags puts what the library advises to programs in the words of the command.
var inFlags = func() *strings.Replacer {
	words := []string{
		"keep a Locker open until then", "let a client run until then",
		"a Durability with Replicas and no Disk", "--replicated without --durable",
		"set Disk, Replicas or both, or leave WithDurability out", "give --durable, --replicated or both, or none",
		" or a shorter Timeout of WithDurability", "",
		"(--full, StatusOptions.Full)", "(--full)",
		"WithNodeSet(", "--node-set (",
	}
	for _, o := range optionFlags {
		words = append(words, "With"+o[0], o[1])
	}
	return strings.NewReplacer(words...)
}()

// spoken is an error as the command says it: options of the library are its flags.
func spoken(err error) string {
	text := strings.TrimPrefix(err.Error(), "redlock: ")
	var option *redlock.OptionError
	if errors.As(err, &option) {
		for _, o := range optionFlags {
			if o[0] == option.Option {
				text = strings.Replace(text, option.Option+": ", o[1]+": ", 1)
			}
		}
	}
	return inFlags.Replace(text)
}

// forbids reports whether a node has refused the user or a command.
func forbids(err error) bool {
	var reply *driver.ServerError
	return errors.As(err, &reply) && (reply.Code == "NOPERM" || reply.Code == "NOAUTH" || reply.Code == "WRONGPASS")
}

func exitCodesTopic() *cobra.Command {
	t := table{{"CODE", "NAME", "MEANS"}}
	for _, c := range exitCodes {
		t = append(t, []string{c.code, c.name, c.means})
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: "The process ends with one of these codes:\n\n" + strings.TrimSpace(t.String())}
}
