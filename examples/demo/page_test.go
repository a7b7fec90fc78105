package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/redlock"
)

func TestQuoteChangesNothingButTheLines(t *testing.T) {
	votes := []redlock.Vote{
		{Node: "node 1", Answer: redlock.Failed, Err: errors.New("dial tcp 127.0.0.1:40001: connect: connection refused")},
		{Node: "node 2", Answer: redlock.Granted},
		{Node: "node 3", Answer: redlock.Pending},
	}
	quorum := &redlock.QuorumError{Op: "extend", Key: "k", Need: 2, Votes: votes, Reason: redlock.ErrNoQuorum}
	tests := []struct {
		err  error
		want string
	}{
		{quorum, `| redlock: extend "k": no quorum (2 of 3 nodes must agree):
|   node 1: dial tcp 127.0.0.1:40001: connect: connection refused;
|   node 2: granted;
|   node 3: not answered yet
`},
		{fmt.Errorf("%w: given up", quorum), `| redlock: extend "k": no quorum (2 of 3 nodes must agree):
|   node 1: dial tcp 127.0.0.1:40001: connect: connection refused;
|   node 2: granted;
|   node 3: not answered yet: given up
`},
		{redlock.ErrLost, "| lock lost\n"},
		{
			errors.New(strings.TrimSpace(strings.Repeat("forty characters are in these few words ", 3))),
			`| forty characters are in these few words forty characters are in these few
|     words forty characters are in these few words
`,
		},
		{errors.New(strings.Repeat("x", 100) + " y"), "| " + strings.Repeat("x", 100) + "\n|     y\n"},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		page{log.New(&out, "", 0)}.quote(tt.err)
		if out.String() != tt.want {
			t.Errorf("%q is quoted as\n%s, want\n%s", tt.err, &out, tt.want)
		}
		bare := strings.Fields(strings.ReplaceAll("\n"+out.String(), "\n|", ""))
		if got := strings.Join(bare, " "); got != tt.err.Error() {
			t.Errorf("without bars and line breaks the quote is\n%s, want the error itself:\n%s", got, tt.err)
		}
	}
}
