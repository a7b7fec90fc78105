package cluster

import (
	"errors"
	"slices"
	"strings"

	"github.com/quorumlock/quorumlock/internal/scripts"
	"github.com/quorumlock/quorumlock/test/integration/server"
)

// ErrMissed says that a fault did not happen in the middle of a batch, because no batch came that
// it waits for.
var ErrMissed = errors.New("no vote came")

// interrupt does something to the server in the middle of the next batch with a vote that
// one of the fault's clients sends: the client sees no cut. It is one client, and the same
// at all nodes of the fault, so that a quorum of one vote may be harmed. By the fault's
// number, it is mostly a vote for a key that somebody has, and else any.
func (h *harmed) interrupt(do func() error) (func() error, error) {
	var (
		links  = h.linked()
		number = h.fault.Bytes / len(links)
		suits  = votes
		err    error
	)
	if number%4 != 3 {
		suits = h.contends
	}
	end := links[h.fault.Bytes%len(links)].Interrupt(
		func(commands [][]string) int { return place(commands, suits, number/4) },
		func() {
			// Whoever answers has run what came before.
			if err = h.do("PING"); err == nil {
				err = do()
			}
		},
	)
	return func() error {
		if !end() {
			return ErrMissed
		}
		return err
	}, nil
}

// place chooses, by a number, how many commands of a batch go ahead: up to one that suits
// behind the first commands, or up to what stands behind one that suits. It is -1 where there
// is no such place.
func place(commands [][]string, suits func(words []string) bool, number int) int {
	var places []int
	for i, words := range commands {
		if !suits(words) {
			continue
		}
		if i > 0 {
			places = append(places, i)
		}
		if i+1 < len(commands) {
			places = append(places, i+1)
		}
	}
	if len(places) == 0 {
		return -1
	}
	return places[number%len(places)]
}

// contends reports whether a command would set a lock's key that is there.
func (h *harmed) contends(words []string) bool {
	if !votes(words) || words[0] != "SET" {
		return false
	}
	there, err := server.Do(h.server.Addr(), "EXISTS", words[1])
	return err == nil && there == "1"
}

// votes reports whether the reply to a command may be a vote: one that sets a lock's key, or
// prolongs it.
func votes(words []string) bool {
	switch {
	case len(words) < 2:
		return false
	case words[0] == "SET":
		return slices.Contains(words, "NX") && slices.Contains(words, "PX")
	case strings.HasPrefix(words[0], "EVAL"):
		return words[1] == scripts.Hold.Digest || words[1] == scripts.Hold.Source
	}
	return false
}
