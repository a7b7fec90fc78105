//go:build linux

package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

func TestWhatRunRefusesIsRefusedBeforeAnythingIsSent(t *testing.T) {
	plain := file(t, "plain", "no program\n")
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"run", exitUsage, "requires at least 1 arg"},
		{"run k", exitUsage, "no program to run"},
		{"run k --", exitUsage, "no program to run"},
		{"run k true", exitUsage, "flags before it, and -- and the program behind it"},
		{"run k --ttl 5s -- true", exitUsage, `"--ttl" stands behind the key`},
		{"run k -- no-such-program", 127, "no-such-program"},
		{"run k -- /no/such/program", 127, "/no/such/program"},
		{"run k -- " + plain, 126, "permission denied"},
		{"run k -- /", 126, "is a directory"},
		{"run --ttl 10s --grace 5s k -- true", exitUsage, "grace and margin (100ms) may take half of the TTL 10s"},
		{"run --grace -1s k -- true", exitUsage, "Grace"},
		{"run --ttl 1ms k -- true", exitUsage, "TTL"},
		{"run -n -w 1s --restart k -- true", exitUsage, "--restart waits for the key for ever"},
		{"run -w -1s k -- true", exitUsage, "not less than 0"},
		{"run --at-least 2m --max-hold 1m k -- true", exitUsage, "--at-least 2m0s is longer than --max-hold 1m0s"},
		{"run --max-hold 1s k -- true", exitUsage, "MaxHold"},
		{"run -E 256 k -- true", exitUsage, "not between 0 and 255"},
		{"run --on-lost ignore k -- true", exitUsage, "neither kill nor report"},
		{"run --foreground maybe k -- true", exitUsage, "none of auto, yes and no"},
		{"run --signal FOO k -- true", exitUsage, "is no signal"},
		{"run --signal 65 k -- true", exitUsage, "is no signal"},
		{"run --status-fd 1000 k -- true", exitUsage, "want a descriptor that is open for writing"},
		{"run --status-fd -1 k -- true", exitUsage, "is no descriptor"},
		{"elect e -- no-such-program", 127, "no-such-program"},
		{"elect --on-elected no-such-hook e", 127, "no-such-hook"},
		{"elect --listen 127.0.0.1:none e", exitConfig, "--listen"},
		{"elect --name= e", exitUsage, "--name"},
		{"left", exitUsage, "left is for what \"quorumlock run\" runs"},
	} {
		got := run(t, []string{"QUORUMLOCK_NODES=redis://127.0.0.1:1"}, strings.Fields(tt.args)...)
		if got.code != tt.code || !strings.Contains(got.talk, tt.says) || got.out != "" {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want code %d, and %q on stderr alone", tt.args, got.code, got.out, got.talk, tt.code, tt.says)
		}
	}
}

func TestNodesThatAreAwayAtTheStart(t *testing.T) {
	got := run(t, []string{"QUORUMLOCK_NODES=redis://127.0.0.1:1"}, "run", "-n", "k", "--", "true")
	if got.code != exitUnavailable || !strings.Contains(got.talk, "127.0.0.1:1") {
		t.Errorf("run ended with %d and said %q, want %d and the node's name", got.code, got.talk, exitUnavailable)
	}
}

// Two processes have crashed with a vote each.
func TestOneTryGoesOnWhileNobodyIsKnownToHaveTheKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags string
		left  []string // how long the votes stay
		want  int
	}{
		{"-n -E 0 --node-timeout 1s", []string{"PX", "3000"}, 0},
		{"-w 0 -E 0 --node-timeout 1s", []string{"PX", "3000"}, 0},
		{"-n -E 0 --node-timeout 1s --ttl 3s --grace 100ms", nil, exitUnavailable},
	} {
		s := newMasters(t, 3)
		do(t, s.servers[0].Addr, append([]string{"SET", "k", "ql:~one"}, tt.left...)...)
		do(t, s.servers[1].Addr, append([]string{"SET", "k", "ql:~two"}, tt.left...)...)
		w := start(t, s.nodes, script(tt.flags, `echo > $D/ran`))
		if code := w.code(); code != tt.want || w.exists("ran") != (code == 0) || (w.talk.Len() > 0) != (code != 0) {
			t.Errorf("run %s of a key that nobody has ended with %d and said %q, ran: %v; want %d, and 0 only if it ran", tt.flags, code, w.talk.String(), w.exists("ran"), tt.want)
		}
	}
}

func TestAKeyThatIsHeldHasACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	holder := start(t, s.nodes, script("", `exec sleep 1000`))
	holder.await("started")
	for flags, want := range map[string]int{"-n": exitTaken, "-w 0": exitTaken, "-w 10ms": exitTaken, "-n -E 9": 9, "-n -E 0": 0} {
		w := start(t, s.nodes, script(flags, `echo > $D/ran`))
		said := w.code() == want && !w.exists("ran") && (w.talk.Len() > 0) == (want != 0)
		if !said || want != 0 && !strings.Contains(w.talk.String(), "sh@") {
			t.Errorf("run %s ended with %d and said %q, ran: %v; want %d, who has the key but for -E 0, and nothing run", flags, w.code(), w.talk.String(), w.exists("ran"), want)
		}
	}
	nested := start(t, s.nodes, script("", `exit 1`), func(c *exec.Cmd) {
		files, _ := filepath.Glob(filepath.Join(holder.folder, "quorumlock-*", "lease"))
		c.Env = append(c.Env, leaseVariable+"="+strings.Join(files, ""))
	})
	if code := nested.code(); code != exitUsage || !strings.Contains(nested.talk.String(), `you hold "k" already`) {
		t.Errorf("a nested run of one key ended with %d and said %q, want %d at once", code, nested.talk.String(), exitUsage)
	}
}

func TestTheProgramIsToldWhatItRunsUnder(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("--fences --status-fd 3", `env > $D/env.new; mv $D/env.new $D/env; echo > $D/ready; while [ ! -e $D/go ]; do sleep 0.01; done`), func(c *exec.Cmd) {
		c.Env = append(c.Env, "QUORUMLOCK_TOKEN=outer", "NOTIFY_SOCKET=@none", "QUORUMLOCK_AT_LEAST=1ms")
	})
	w.file("ready")
	env := "\n" + w.file("env") + "\n"
	for _, want := range []string{"\nQUORUMLOCK_KEY=k\n", "\nQUORUMLOCK_FENCE=", "\nQUORUMLOCK_UNTIL=2", "\nQUORUMLOCK_LEASE=" + w.folder + "/"} {
		if !strings.Contains(env, want) {
			t.Errorf("the program does not find %q in %s", want, env)
		}
	}
	for _, no := range []string{"QUORUMLOCK_TOKEN=", "NOTIFY_SOCKET=", "QUORUMLOCK_AT_LEAST="} {
		if strings.Contains(env, "\n"+no) {
			t.Errorf("the program finds %s, which is not its own", no)
		}
	}
	lease := strings.TrimSpace(strings.Split(strings.Split(env, "QUORUMLOCK_LEASE=")[1], "\n")[0])
	left := func(args ...string) int {
		return run(t, []string{leaseVariable + "=" + lease}, append([]string{"left"}, args...)...).code
	}
	if left() != 0 || left("--at-least", "2s") != 0 || left("--at-least", "1h") != 1 {
		t.Error("left says that a lock that lasts some seconds does not, or that it lasts an hour")
	}
	w.touch("go")
	if code := w.code(); code != exitOK || left() != 1 {
		t.Errorf("run ended with %d, and then left with %d, want 0 and 1", code, left())
	}
	for _, line := range w.lines {
		if faults := conforms(t, "run.v1.json", line); faults != nil {
			t.Errorf("%s: %q", line, faults)
		}
	}
	all := w.all()
	if first, last := all[0], all[len(all)-1]; first.Event != "waiting" || last.Event != "exit" || *last.Code != 0 || w.await("started").Pid == 0 || w.await("released").Fence == 0 {
		t.Errorf("the events are %+v, want them from waiting to exit", all)
	}
}

func TestTheTokenIsOnlyToldOnDemand(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	w := start(t, s.nodes, script("--expose-token", `test -n "$QUORUMLOCK_TOKEN"`))
	if code := w.code(); code != exitOK {
		t.Errorf("the program has no token: run ended with %d", code)
	}
}

func TestALeaseFileThatCannotBeWrittenRunsNothing(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("", `echo > $D/ran`), func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_RUNTIME_DIR=/nowhere") })
	if code := w.code(); code != exitIO || w.exists("ran") || len(s.left()) > 0 || !strings.Contains(w.talk.String(), "lease file") {
		t.Errorf("run ended with %d and said %q, ran: %v, keys %q; want %d, nothing run and no key", code, w.talk.String(), w.exists("ran"), s.left(), exitIO)
	}
}

func TestTheKeyIsKeptAtLeast(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	w := start(t, s.nodes, script("--at-least 3s", `exit 4`))
	acquired := w.await("acquired").Time
	if code := w.code(); code != 4 || w.await("released").Time.Sub(acquired) < 2900*time.Millisecond {
		t.Errorf("run ended with %d, %v after it had the key, want 4 after 3s", code, w.await("released").Time.Sub(acquired))
	}
}

func TestAReportedLossStopsNothing(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("--ttl 2s --grace 200ms --on-lost report", `while [ ! -e $D/go ]; do sleep 0.01; done; exit 4`))
	w.await("started")
	defer s.freeze()()
	w.await("lost")
	w.touch("go")
	if code := w.code(); code != 4 || w.has("stopping") {
		t.Errorf("run ended with %d, stopped: %v; want the program's 4 and no stop", code, w.has("stopping"))
	}
}

func TestALostProgramIsRunAgain(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("--ttl 2s --grace 200ms --restart", `if [ -e $D/second ]; then exit 4; fi; echo > $D/ready; exec sleep 1000`))
	w.file("ready")
	thaw := s.freeze()
	w.await("lost")
	w.touch("second")
	thaw()
	if code := w.code(); code != 4 {
		t.Errorf("run --restart ended with %d, want 4, with which the second program has ended: %s", code, w.talk.String())
	}
}

func TestTheInitSystemIsTold(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	start(t, s.nodes, script("", `exit 0`), func(c *exec.Cmd) { c.Env = append(c.Env, "NOTIFY_SOCKET="+name) }).code()
	buf := make([]byte, 1000)
	for _, want := range []string{"STATUS=waiting for k", "READY=1\nSTATUS=has k", "STOPPING=1"} {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, _, err := conn.ReadFrom(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("the init system was told %q (%v), want %q", buf[:n], err, want)
		}
	}
}

func TestACandidateLeadsAndSaysSo(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	addr := redisserver.FreeAddr(t)
	hook := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho $QUORUMLOCK_KEY $QUORUMLOCK_FENCE >> $D/hook.${0##*.}\n"), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	for _, name := range []string{".elected", ".over"} {
		if err := os.Symlink(hook, hook+name); err != nil {
			t.Fatal(err)
		}
	}
	w := start(t, s.nodes, []string{
		"elect", "--ttl", "3s", "--grace", "200ms", "--fences", "--name", "me", "--listen", addr,
		"--on-elected", hook + ".elected", "--on-lost", hook + ".over", "k", "--", "/bin/sh", "-c", `echo > $D/ready; exec sleep 1000`,
	})
	w.file("ready")
	other := start(t, s.nodes, []string{"elect", "--name", "other", "k"})
	fence := w.await("acquired").Fence
	if got := w.file("hook.elected"); !strings.HasPrefix(got, "k ") || fence == 0 {
		t.Errorf("--on-elected was told %q under fence %d", got, fence)
	}
	get := func(path string) (code int, body map[string]any) {
		answer, err := http.Get("http://" + addr + path) //nolint:noctx // the loopback answers
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		_ = json.NewDecoder(answer.Body).Decode(&body) // /leader and /healthz are no JSON
		return answer.StatusCode, body
	}
	for path, want := range map[string]int{"/leader": 200, "/healthz": 200, "/": 200, "/none": 404} {
		if code, _ := get(path); code != want {
			t.Errorf("%s answers %d, want %d", path, code, want)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the observer hears of it from the nodes
		_, body := get("/")
		if body["name"] == "me" && body["leads"] == true && body["fence"] == float64(fence) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("/ says %v, want that me leads, by fence %d", body, fence)
		}
	}
	thaw := s.freeze()
	sick := false
	for !w.has("lost") {
		code, _ := get("/healthz")
		sick = sick || code == 503
		time.Sleep(5 * time.Millisecond) // a probe's pause
	}
	if code, _ := get("/leader"); !sick || code == 200 && !w.has("stopping") {
		t.Errorf("without nodes /healthz was 503: %v, and /leader answers %d", sick, code)
	}
	w.file("hook.over")
	if code, _ := get("/leader"); code != 503 {
		t.Errorf("when the term is over /leader answers %d, want 503", code)
	}
	ends := func(candidate *wrapper) {
		candidate.signal(syscall.SIGTERM)
		if code := candidate.code(); code != 128+int(syscall.SIGTERM) {
			t.Errorf("a candidate that was asked to end ended with %d, want 143: %s", code, candidate.talk.String())
		}
	}
	ends(w) // or it might be elected again
	thaw()
	other.await("acquired")
	ends(other)
}
