package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/redlocktest"
)

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
	{"7. An operator looks on: quorumlock status --watch", `KEY HOLDER LEFT 1 2 3 4 5 STATE orders:42 alice@web-1 \(....…\) \S+s [●·? ]+ held`},
	{"8. Two nodes are killed, and nothing happens", `alice@web-1 \S+ \S+s \? \? [●· ]+ held`},
	{"9. They come back, with their keys", `alice@web-1 \S+ \S+s [●· ]+ held`},
	{"10. Alice releases the lock, and Bob has it", `bob@web-2 \S+ \S+s [●· ]+ held`},
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

// The picture in the documentation is what is made of the text beside it.
func TestThePictureIsThatOfTheText(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "demo.txt"))
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(filepath.Join("..", "..", "docs", "demo.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if draw(string(text)) != string(picture) {
		t.Error("docs/demo.svg is not the picture of docs/demo.txt: make demo-picture")
	}
	if len(scenes(string(text))) != 4 {
		t.Errorf("docs/demo.txt has the scenes %v, want 4", scenes(string(text)))
	}
	for xmls := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := xmls.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("docs/demo.svg is no XML: %v", err)
		}
	}
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

func TestAStepFailsWhereItsStoryIsNotTrue(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*story)
		step  func(*story) error
		want  string
	}{
		{
			"Bob gets the lock", func(s *story) {
				for _, server := range s.servers {
					server.Del(key)
				}
			},
			func(s *story) error { return s.refuse() }, "gave Bob the lock",
		},
		{
			"three nodes are killed instead of two", func(s *story) { s.servers[4].Stop() },
			func(s *story) error { return s.loseTwo() }, "no quorum",
		},
		{
			"somebody has taken the lock away", func(s *story) {
				for _, server := range s.servers {
					server.Set(key, "somebody", 0)
				}
			},
			func(s *story) error { return s.loseTwo() }, "does not hold the lock",
		},
		{
			"the third node stays", func(s *story) { s.servers[2] = redlocktest.Start(t, 1)[0] },
			func(s *story) error { return s.loseThree() }, "two nodes of five have extended",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory(t)
			if err := s.take(); err != nil {
				t.Fatalf("Alice takes the lock: %v", err)
			}
			tt.spoil(s)
			if err := tt.step(s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("where %s, the step's error is %v, want one with %q", tt.name, err, tt.want)
			}
		})
	}
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{page: page{log.New(io.Discard, "", 0)}, servers: redlocktest.Start(t, 5)}
	var err error
	if s.alice, err = connect(goredis.Open, s.servers, "alice"); err != nil {
		t.Fatal(err)
	}
	if s.bob, err = connect(redigo.Open, s.servers, "bob"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.alice.Close(), s.bob.Close() }) // fails for want of nodes
	return s
}
