// Package programtest plays examples, for their tests.
package programtest

import (
	"bytes"
	"context"
	"io"
	"log"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/redlocktest"
)

type story = func(context.Context, program.Stage) error

// Play plays the story over the nodes, and calls happen when it prints a line that has the words, or
// before it begins if there are none. It returns what was printed and the story's error.
func Play(ctx context.Context, nodes redlocktest.Nodes, words string, happen func(), tell story) (told string, err error) {
	var out bytes.Buffer
	to := io.MultiWriter(&out, trigger{words, happen})
	if words == "" {
		happen()
		to = &out
	}
	connect := func() ([]driver.Node, error) { return nodes.Drivers(), nil }
	err = tell(ctx, program.Stage{Logger: log.New(to, "", 0), Connect: connect})
	return out.String(), err
}

type trigger struct {
	words  string
	happen func()
}

func (tr trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), tr.words) {
		tr.happen()
	}
	return len(p), nil
}

// Tells plays the story over five nodes, of which so many are down, in virtual time, and checks that
// lines which match want are printed in this order.
func Tells(t *testing.T, down int, tell story, want ...string) (told string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes := redlocktest.StartInBubble(t, 5)
		for _, node := range nodes {
			node.SlowDown(time.Millisecond) // as over a network
		}
		told, err = Play(t.Context(), nodes, "", nodes[:down].Close, tell)
	})
	rest := told
	for _, line := range want {
		found := regexp.MustCompile(`(?m)^` + line + `$`).FindStringIndex(rest)
		if found == nil {
			t.Errorf("%q is missing, or not in its place, in\n%s", line, told)
			break
		}
		rest = rest[found[1]:]
	}
	return told, err
}
