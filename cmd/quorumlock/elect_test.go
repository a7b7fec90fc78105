//go:build linux

package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock/test/redisserver"
)

// hookFile is a hook with the text of a script.
func hookFile(t testing.TB, text string) string {
	t.Helper()
	name := file(t, "hook", "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(name, 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return name
}

// leaving is a hook that waits for the test.
const leaving = `echo "$QUORUMLOCK_KEY" > $D/leaving; while [ ! -e $D/go ]; do sleep 0.01; done; echo > $D/left`

// candidate is the arguments of a candidate with a short lease.
func candidate(more ...string) []string {
	return append([]string{"elect", "--ttl", "6s", "--grace", "200ms"}, more...)
}

// leading starts a candidate, with a program or ("") without, and waits until it leads.
func leading(t *testing.T, s *ward, program string, flags ...string) *wrapper {
	t.Helper()
	args := append(candidate(flags...), "k")
	if program != "" {
		args = append(args, "--", "/bin/sh", "-c", "echo > $D/ready; "+program)
	}
	w := start(t, s.nodes, args)
	w.await("acquired")
	if program != "" {
		w.file("ready")
	}
	return w
}

// get returns what a page answers, which is of a type.
func get(t testing.TB, url string, kind ...string) (code int, text string) {
	t.Helper()
	answer, err := http.Get("http://" + url) //nolint:noctx // the loopback answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if got := answer.Header.Get("Content-Type"); err != nil || kind != nil && got != kind[0] {
		t.Fatalf("%s has the type %q (%v)", url, got, err)
	}
	return answer.StatusCode, string(body)
}

// leads reports what /leader answers.
func leads(t *testing.T, addr string) bool {
	t.Helper()
	code, _ := get(t, addr+"/leader")
	return code == http.StatusOK
}

func TestALeaderLeavesBeforeTheNextOneIsElected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		program string
		signal  bool // ends the term
		code    int
	}{
		{"", true, 143},
		{"exec sleep 1000", true, 143},
		{"while [ ! -e $D/over ]; do sleep 0.01; done; exit 4", false, 4},
	} {
		s := newMasters(t, 3)
		addr := redisserver.FreeAddr(t)
		w := leading(t, s, tt.program, "--listen", addr, "--on-lost", hookFile(t, leaving))
		next := start(t, s.nodes, candidate("--on-elected", hookFile(t, "echo > $D/elected"), "k"))
		if tt.signal {
			w.signal(syscall.SIGTERM)
		}
		w.touch("over")
		if key := w.file("leaving"); key != "k" || leads(t, addr) {
			t.Errorf("%q: when --on-lost runs its key is %q, and /leader is 200: %v; want k and false", tt.program, key, leads(t, addr))
		}
		if next.exists("elected") {
			t.Errorf("%q: --on-elected of the next leader ran before --on-lost of this one had ended", tt.program)
		}
		before := time.Now()
		w.touch("go")
		if code, at := w.code(), w.await("released").Time; code != tt.code || at.Before(before) {
			t.Errorf("%q: elect ended with %d, and released the lock %v after --on-lost was let go; want %d, and more than 0: %s", tt.program, code, at.Sub(before), tt.code, w.talk.String())
		}
		next.file("elected")
	}
}

// The hook cleans up: neither the end of the lease nor that of the nodes ends it.
func TestALeaderThatWasAskedToEndEndsThoughItsLockIsLostMeanwhile(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"", "exec sleep 1000"} {
		s := newMasters(t, 3)
		w := leading(t, s, program, "--on-lost", hookFile(t, `echo > $D/leaving; while [ -e $QUORUMLOCK_LEASE ]; do sleep 0.01; done; `+leaving))
		w.signal(syscall.SIGTERM)
		w.file("leaving")
		s.freeze()
		w.touch("go")
		if code := w.code(); code != 143 || !w.exists("left") {
			t.Errorf("%q: elect ended with %d, --on-lost to its end: %v; want 143 and true: %s", program, code, w.exists("left"), w.talk.String())
		}
	}
}

// Also one that ignores what asks it to end; and nobody campaigns after that.
func TestASignalEndsAHookThatHangs(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		s := newMasters(t, 3)
		w := leading(t, s, "", "--on-lost", hookFile(t, "trap '' TERM; echo > $D/leaving; exec sleep 50"))
		if lost {
			s.freeze()
		} else {
			w.signal(syscall.SIGTERM)
		}
		w.file("leaving")
		w.signal(syscall.SIGTERM)
		if code := w.code(); code != 143 || w.has("released") == lost || !strings.Contains(w.talk.String(), "--on-lost has ended with code 137") {
			t.Errorf("lock lost: %v: elect ended with %d, released: %v, and said %q; want 143, a release of what was not lost, and that the hook has not done its work",
				lost, code, w.has("released"), w.talk.String())
		}
	}
}

func TestALeaderLeadsBehindAHookThatSucceeds(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"0", "3"} {
		s := newMasters(t, 3)
		addr := redisserver.FreeAddr(t)
		w := start(t, s.nodes, candidate("--listen", addr,
			"--on-elected", hookFile(t, `echo > $D/elected; while [ ! -e $D/elect ]; do sleep 0.01; done; exit `+code), "--on-lost", hookFile(t, leaving),
			"k", "--", "/bin/sh", "-c", `echo > $D/ready; exec sleep 1000`))
		w.file("elected")
		if leads(t, addr) {
			t.Error("/leader is 200 while --on-elected runs")
		}
		w.touch("go")
		w.touch("elect")
		if code == "0" {
			w.file("ready")
			if !leads(t, addr) {
				t.Error("/leader is not 200 while the program runs")
			}
			continue
		}
		if got := w.code(); got != 3 || w.exists("ready") || !w.exists("left") || !w.has("released") || !strings.Contains(w.talk.String(), "--on-elected has ended with code 3") {
			t.Errorf("with a hook that fails elect ended with %d, ran the program: %v, and --on-lost: %v, and released the lock: %v; want 3, false, true, true, and why: %s",
				got, w.exists("ready"), w.exists("left"), w.has("released"), w.talk.String())
		}
	}
}

func TestWhoWasAskedToEndCampaignsNoMoreWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	for _, verb := range [][]string{{"run", "--restart"}, {"elect"}} {
		s := newMasters(t, 3)
		w := start(t, s.nodes, append(verb, "--ttl", "8s", "--grace", "3s", "k", "--", "/bin/sh", "-c", `trap '' TERM; echo > $D/ready; exec sleep 50`))
		w.file("ready")
		s.freeze()
		w.await("stopping") // the lock will be lost
		w.signal(syscall.SIGTERM)
		w.ends(143)
	}
}

func TestAHookThatSucceedsThoughItWasAskedToEndElectsNobody(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, candidate("--on-elected", hookFile(t, `trap 'exit 0' TERM; echo > $D/elected; while :; do sleep 0.01; done`), "k", "--", "/bin/sh", "-c", `echo > $D/ran`))
	w.file("elected")
	w.signal(syscall.SIGTERM)
	if code := w.code(); code != 143 || w.exists("ran") || !w.has("released") {
		t.Errorf("elect ended with %d, ran the program: %v, and released the lock: %v; want 143, false and true: %s", code, w.exists("ran"), w.has("released"), w.talk.String())
	}
}

func TestRunAndElectMeanTheSameByAFlag(t *testing.T) {
	verbs := make(map[string]*pflag.FlagSet)
	for _, verb := range new(tool).root().Commands() {
		verbs[verb.Name()] = verb.Flags()
	}
	shared := 0
	verbs["run"].VisitAll(func(f *pflag.Flag) {
		if other := verbs["elect"].Lookup(f.Name); other != nil {
			if shared++; other.Usage != f.Usage || other.Value.Type() != f.Value.Type() {
				t.Errorf("--%s of run: %q; of elect: %q; want one meaning", f.Name, f.Usage, other.Usage)
			}
		}
	})
	if shared < 10 {
		t.Errorf("run and elect share %d flags, so this test shows nothing", shared)
	}
}

// Whatever the reason, and although its text has the latency of each answer: campaigns that fail one
// after the other say so once, and once more when they do not any more.
func TestCampaignsThatFailSaySoOnceAndWhenThatIsOver(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"elect", "run --restart"} {
		for name, fault := range map[string][2][]string{
			"a password that was changed": {{"ACL", "SETUSER", "locks", "<old"}, {"ACL", "SETUSER", "locks", ">old"}},
			"a right that was taken away": {{"ACL", "SETUSER", "locks", "-set"}, {"ACL", "SETUSER", "locks", "+set"}},
		} {
			t.Run(strings.ReplaceAll(verb+" "+name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				s := newMasters(t, 3)
				nodes := strings.ReplaceAll(s.nodes, "redis://", "redis://locks:old@")
				s.all("ACL", "SETUSER", "locks", "on", ">old", "~*", "&*", "+@all")
				s.all(fault[0]...)
				w := start(t, nodes, append(strings.Fields(verb), "--ttl", "6s", "k", "--", "/bin/sh", "-c", "echo > $D/ready; exec sleep 1000"))
				const campaigns = 6
				first, tries := w.await(eventWaiting).Time, 0
				w.await(eventWaiting, func(e runEvent) bool { // which looks at all of them again and again
					if e.Time.Equal(first) {
						tries = 0
					}
					tries++
					return tries == campaigns
				})
				s.all(fault[1]...)
				w.file("ready")
				w.signal(syscall.SIGTERM)
				w.code()
				said, lasted := strings.Count(w.talk.String(), "another campaign follows"), w.await("acquired").Time.Sub(first)
				if said < 1 || said > 1+int(lasted/time.Minute) {
					t.Errorf("in %d campaigns it said %d times that another one follows: %s", campaigns, said, w.talk.String())
				}
				if over := strings.Count(w.talk.String(), "campaigns had failed for"); over != 1 {
					t.Errorf("it said %d times that this was over: %s", over, w.talk.String())
				}
			})
		}
	}
}
