package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// told is what each step must show, as a pattern over its words. Which votes a
// decision did not wait for differs from run to run.
var told = []struct{ title, shows string }{
	{"1. Alice takes the lock", `She has it after \S+s, for 9\.\d+s\..* (node \d: granted \(\S+s\) ?){5}$`},
	{"2. Bob is refused", `error after \S+s: redlock: acquire "orders:42": taken by alice@web-1 \(3 of 5 nodes must agree\): node 1: .* node 2: .* node 3: .* node 4: .* node 5: `},
	{"3. Two nodes are killed", `she still holds the lock\. She extends it, too\. .* for another 9\.\d+s\. Bob tries .* taken by alice@web-1 \(3 of 5 nodes must agree\): `},
	{"4. A third node is killed", `error after \S+s: redlock: extend "orders:42": no quorum \(3 of 5 nodes must agree\): (node [123]: [^;]*(refused|reset|EOF)[^;]*; ){3}node 4: .* node 5: ` +
		`.* Nothing is lost yet: the lock is hers for another \d\.\d+s`},
	{"5. The nodes come back", `repeats her extension until it succeeds, which takes \S+s\. .* also set the key on node 3 again\.$`},
	{"6. Alice releases the lock, and Bob, who waits, gets it", `\(the cause: lock released\).* Bob has the lock \S+s after she began\. .* no key is left on any node\.`},
	{"7. An operator sees who holds the lock", `runs quorumlock status --watch, .* KEY HOLDER LEFT 1 2 3 4 5 STATE orders:42 alice@web-1 \(....…\) \S+s ● ● ● ● ● held`},
	{"8. Two nodes are killed, and nothing happens", `alice@web-1 \S+ \S+s \? \? [●· ]+ held`},
	{"9. They come back, with their keys", `alice@web-1 \S+ \S+s ● ● ● ● ● held`},
	{"10. Alice releases the lock, and Bob has it", `bob@web-2 \S+ \S+s ● ● ● ● ● held`},
}

// command builds the command that the second act runs.
func command(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "quorumlock")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/quorumlock/quorumlock/cmd/quorumlock").CombinedOutput(); err != nil { //nolint:gosec,noctx // the test's own
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func TestTheStoryIsToldToItsEnd(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, command(t)); err != nil {
		t.Fatalf("run = %v, after:\n%s", err, &out)
	}
	rest := out.String()
	for i, step := range told {
		_, text, found := strings.Cut(rest, "\n"+step.title+"\n")
		if !found {
			t.Fatalf("%q is missing, or not in its place, in:\n%s", step.title, &out)
		}
		rest = text
		if i+1 < len(told) {
			text, _, _ = strings.Cut(text, "\n"+told[i+1].title+"\n")
		}
		words := strings.Join(strings.Fields(strings.ReplaceAll(text, "\n|", " ")), " ")
		if !regexp.MustCompile(step.shows).MatchString(words) {
			t.Errorf("%q shows\n%s, want\n%s", step.title, words, step.shows)
		}
	}
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > width {
			t.Errorf("a line is wider than %d: %s", width, line)
		}
	}
}

// A story is told of what happens, and fails where that is something else.
func TestAStepFailsWhereItsStoryIsNotTrue(t *testing.T) {
	for _, tt := range []struct {
		want  string
		spoil func(*story)
		step  func(*story) error
	}{
		{"gave Bob the lock", func(s *story) {
			for _, server := range s.servers {
				server.Del(key)
			}
		}, (*story).refuse},
		{"no quorum", func(s *story) { s.servers[4].Stop() }, (*story).loseTwo},
		{"does not hold the lock", func(s *story) { s.servers.Take(key, 0) }, (*story).loseTwo},
		{"two nodes of five have extended", func(s *story) { s.servers[2] = redlocktest.Start(t, 1)[0] }, (*story).loseThree},
	} {
		s, err := begin(io.Discard, redlocktest.Start(t, 5))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
		tt.spoil(s)
		if err := tt.step(s); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("the step's error is %v, want one with %q", err, tt.want)
		}
		s.end()
	}
}

func TestAQuoteChangesNothingButTheLines(t *testing.T) {
	err := fmt.Errorf("%w: given up", &redlock.QuorumError{Op: "extend", Key: "k", Need: 2, Reason: redlock.ErrNoQuorum, Votes: []redlock.Vote{
		{Node: "node 1", Answer: "failed", Err: errors.New(strings.TrimSpace(strings.Repeat("forty characters are in these few words ", 3)))},
		{Node: "node 2", Answer: "granted"},
	}})
	var out bytes.Buffer
	page{log.New(&out, "", 0)}.quote(err)
	if want := `| redlock: extend "k": no quorum (2 of 2 nodes must agree):
|   node 1: forty characters are in these few words forty characters are in
|     these few words forty characters are in these few words;
|   node 2: granted: given up
`; out.String() != want {
		t.Errorf("the quote is\n%swant\n%s", &out, want)
	}
}
