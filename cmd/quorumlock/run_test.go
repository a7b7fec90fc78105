//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

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
		do(t, s.servers[0], append([]string{"SET", "k", "ql:~one"}, tt.left...)...)
		do(t, s.servers[1], append([]string{"SET", "k", "ql:~two"}, tt.left...)...)
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

func TestLocksOfEveryKindKeepOutWhatTheyShould(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	for _, tt := range []struct {
		holds, asks, key string // the holder's flags and keys, the other's, and which that is told
		slots, want      int    // how many slots it has, and how run ends
	}{
		{"--shared k", "--shared k", "k", 0, 0},
		{"--shared k", "k", "", 0, exitTaken},
		{"k", "--shared k", "", 0, exitTaken},
		{"a b", "c b", "", 0, exitTaken},
		{"a b", "d c", "c\nd", 0, 0},
		{"a b", "a", "", 0, exitTaken},
		{"a b", "--shared b", "", 0, exitTaken},
		{"--permits 2 k", "--permits 2 k", "k", 1, 0},
		{"--permits 2 --take 2 k", "--permits 2 k", "", 0, exitTaken},
		{"--permits 3 k", "--permits 3 --take 3 k", "", 0, exitTaken},
		{"--permits 3 k", "--permits 3 --take 2 k", "k", 2, 0},
		{"--permits 2 k", "--permits 3 k", "", 0, exitConfig},
		{"--permits 1 k", "k", "k", 0, 0},
	} {
		s.all("FLUSHALL")
		args := func(flags, text string) []string {
			return append(strings.Fields("run --ttl 20s --node-timeout 4s --fences "+flags), "--", "/bin/sh", "-c", text)
		}
		holder := start(t, s.nodes, args(tt.holds, `exec sleep 1000`))
		holder.await("started")
		other := start(t, s.nodes, args("-n "+tt.asks, `printf '%s|%s|%s\n' "$QUORUMLOCK_KEY" "$QUORUMLOCK_SLOT" "${QUORUMLOCK_FENCE:+fence}" > $D/told.new; mv $D/told.new $D/told`))
		if code := other.code(); code != tt.want || (code == 0) != other.exists("told") {
			t.Errorf("beside run %s, run -n %s ended with %d, want %d, and the program run only with 0: %s", tt.holds, tt.asks, code, tt.want, other.talk.String())
		} else if code == 0 {
			told := strings.Split(other.file("told"), "|")
			had := other.await("acquired").Slots
			if want := strings.Trim(fmt.Sprint(had), "[]"); told[0] != tt.key || told[1] != want || len(had) != tt.slots || told[2] != "fence" {
				t.Errorf("the program under %s is told %q: want the key, the slots %q, which are %d, and a fence", tt.asks, told, want, tt.slots)
			}
			for _, slot := range holder.await("acquired").Slots {
				if slices.Contains(had, slot) {
					t.Errorf("run %s and run %s both have slot %d", tt.holds, tt.asks, slot)
				}
			}
		}
		holder.signal(syscall.SIGTERM)
		if code := holder.code(); code != 128+int(syscall.SIGTERM) || !holder.has("released") {
			t.Errorf("run %s that was asked to end ended with %d, released: %t; want 143, and that it was", tt.holds, code, holder.has("released"))
		}
	}
}

// A file is as good as the journal, if JOURNAL_STREAM names it.
func TestAnOperatorIsToldForWhomRunWaits(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	holder := start(t, s.nodes, append(strings.Fields("run --ttl 20s b a"), "--", "sleep", "1000"))
	holder.await("started")
	semaphore := start(t, s.nodes, append(strings.Fields("run --permits 2 --take 2 p"), "--", "sleep", "1000"))
	semaphore.await("started")
	type waiter struct {
		*wrapper
		flags string
		says  []string // and then that it has the key; nil: nothing
	}
	var waiters []waiter
	name := fmt.Sprintf("sleep@.*/%d has ", holder.cmd.Process.Pid)
	begin := func(flags string, journal bool, says ...string) {
		talk, err := os.Create(filepath.Join(t.TempDir(), "talk"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = talk.Close() })
		var stat syscall.Stat_t
		if err := syscall.Fstat(int(talk.Fd()), &stat); err != nil {
			t.Fatal(err)
		}
		stream := "JOURNAL_STREAM=8:1"
		if journal {
			stream = fmt.Sprintf("JOURNAL_STREAM=%d:%d", stat.Dev, stat.Ino)
		}
		w := start(t, s.nodes, append(strings.Fields("run --ttl 20s "+flags), "--", "true"), func(c *exec.Cmd) {
			c.Stderr, c.Env = talk, append(c.Env, stream)
		})
		w.folder = filepath.Dir(talk.Name())
		waiters = append(waiters, waiter{w, flags, says})
	}
	const left = ` since 2[0-9TZ:-]{19}, for (1[0-9]|20)s more and longer if it renews(; [2-8] wait)?`
	begin("a", true, `waiting for "a": `+name+"it"+left)
	begin("c a", true, `waiting for "a", "c": `+name+`"a"`+left)
	begin("--shared b", true, `waiting for "b": `+name+"it"+left)
	begin("--permits 2 p", true, `waiting for a permit of "p": there are 2`)
	waiters[0].await("waiting")
	begin("a", true, `waiting for "a": `+name+"it.* renews; [2-8] wait")
	begin("-q a", true)
	begin("a", false)
	keyboard, screen := terminal(t)
	atTerminal := start(t, s.nodes, append(strings.Fields("run --ttl 20s a"), "--", "true"), func(c *exec.Cmd) { c.Stderr = screen })
	if line, err := bufio.NewReader(keyboard).ReadString('\n'); err != nil || !regexp.MustCompile(name).MatchString(line) {
		t.Errorf("at a terminal run says %q (%v), want who has the key", line, err)
	}
	for _, w := range waiters {
		w.await("waiting")
		for _, want := range w.says {
			if said := w.file("talk"); !regexp.MustCompile(`^quorumlock: ` + want + `$`).MatchString(strings.Split(said, "\n")[0]) {
				t.Errorf("run %s says %q while it waits, want %s", w.flags, said, want)
			}
		}
	}
	patient.Until(t, "status says since when the key is held", func() bool { // by a renewal, if a node was late at first
		return regexp.MustCompile(`sleep@.*held, for [0-9.]+m?s`).MatchString(run(t, []string{"QUORUMLOCK_NODES=" + s.nodes}, "status", "a").out)
	})
	for _, w := range []*wrapper{holder, semaphore} {
		w.signal(syscall.SIGTERM)
		w.code()
	}
	atTerminal.code()
	for _, w := range waiters {
		code := w.code()
		text, err := os.ReadFile(filepath.Join(w.folder, "talk"))
		if told := strings.Contains(string(text), "quorumlock: has "); code != exitOK || err != nil || told != (w.says != nil) || !told && len(text) > 0 {
			t.Errorf("run %s ended with %d and has said %q (%v), want 0, and how long it waited: %t", w.flags, code, text, err, w.says != nil)
		}
	}
}

func TestTheProgramIsToldWhatItRunsUnder(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	w := start(t, s.nodes, script("--fences --status-fd 3", `env > $D/env.new; mv $D/env.new $D/env; echo > $D/ready; while [ ! -e $D/go ]; do sleep 0.01; done`), func(c *exec.Cmd) {
		c.Env = append(c.Env, "QUORUMLOCK_TOKEN=outer", "QUORUMLOCK_SLOT=7", "NOTIFY_SOCKET=@none", "QUORUMLOCK_AT_LEAST=1ms")
	})
	w.file("ready")
	env := "\n" + w.file("env") + "\n"
	for _, want := range []string{"\nQUORUMLOCK_KEY=k\n", "\nQUORUMLOCK_FENCE=", "\nQUORUMLOCK_LEASE=" + w.folder + "/"} {
		if !strings.Contains(env, want) {
			t.Errorf("the program does not find %q in %s", want, env)
		}
	}
	for _, no := range []string{"QUORUMLOCK_TOKEN=", "QUORUMLOCK_SLOT=", "NOTIFY_SOCKET=", "QUORUMLOCK_AT_LEAST="} {
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
	all := w.all()
	if first, last := all[0], all[len(all)-1]; first.Event != "waiting" || last.Event != "exit" || *last.Code != 0 || w.await("started").Pid == 0 || w.await("released").Fence == 0 {
		t.Errorf("the events are %+v, want them from waiting to exit", all)
	}
}

func TestALeaseFileThatCannotBeWrittenIsFoundBeforeTheWait(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	start(t, s.nodes, script("", `exec sleep 1000`)).await("started")
	for _, tt := range []struct {
		name   string
		args   []string
		change func(*exec.Cmd)
	}{
		{"no folder", script("", `echo > $D/ran`), func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_RUNTIME_DIR=/nowhere", "TMPDIR=/nowhere") }},
		{"no room", script("", `echo > $D/ran`), func(c *exec.Cmd) { // a file may have no byte
			c.Args = append([]string{"sh", "-c", `ulimit -f 0; exec "$@"`, "sh"}, c.Args...)
			c.Path = "/bin/sh"
		}},
		{"no folder for the hook of a candidate", []string{"elect", "--on-elected", "true", "k"}, func(c *exec.Cmd) { c.Env = append(c.Env, "XDG_RUNTIME_DIR=/nowhere", "TMPDIR=/nowhere") }},
	} {
		w := start(t, s.nodes, tt.args, tt.change)
		if code := w.code(); code != exitIO || w.exists("ran") || w.has("waiting") || !strings.Contains(w.talk.String(), "set XDG_RUNTIME_DIR") {
			t.Errorf("%s: it ended with %d and said %q, ran: %v, waited: %v; want %d, what to do, and neither", tt.name, code, w.talk.String(), w.exists("ran"), w.has("waiting"), exitIO)
		}
		if left, _ := filepath.Glob(filepath.Join(w.folder, "quorumlock-*")); left != nil {
			t.Errorf("%s: %q is left", tt.name, left)
		}
	}
}

// 79 is also what run says of a lock that was lost.
func TestAProgramMayReturnTheCodeOfALostLock(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	for _, flags := range []string{"--at-least 2s", "--restart"} {
		w := start(t, s.nodes, script(flags, `echo >> $D/ran; exit 79`))
		acquired, code := w.await("acquired").Time, w.code()
		ran, _ := os.ReadFile(filepath.Join(w.folder, "ran"))
		after := w.await("released").Time.Sub(acquired)
		if code != 79 || string(ran) != "\n" || w.has("lost") || flags != "--restart" && after < 1900*time.Millisecond || w.talk.Len() > 0 {
			t.Errorf("run %s of a program that returns 79 ended with %d, released it after %v, ran it %d times and said %q; want 79, once, and nothing said",
				flags, code, after, len(ran), w.talk.String())
		}
	}
}

// As process 1 of a container it inherits what others leave; here, from the shell that it replaces.
func TestWhatRunInheritsIsReaped(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	holder := start(t, s.nodes, script("", `while [ ! -e $D/go ]; do sleep 0.01; done`))
	holder.await("started")
	w := start(t, s.nodes, script("", `while [ ! -e $D/go ]; do sleep 0.01; done`), func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `for n in 1 2; do
			sh -c 'echo $$ > $D/child.'$n'; while [ ! -e $D/end.'$n' ]; do sleep 0.01; done' &
		done; exec "$0" "$@"`}, c.Args...)
	})
	reaped := func(when, number string) {
		pid := w.pid("child." + number)
		w.touch("end." + number)
		patient.Until(t, when+" a process that has ended is reaped", func() bool { return state(pid) == 'X' })
	}
	w.await("waiting")
	reaped("while it waits", "1")
	holder.touch("go")
	w.await("started")
	reaped("while its program runs", "2")
	w.touch("go")
	w.ends(exitOK)
}

func TestSignalsForTheProgramReachIt(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	signals := []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGIO, syscall.SIGPWR, 35, 50, 64}
	text := `for s in 10 12 14 29 30 35 50 64; do trap "echo > $D/got.$s" $s; done; echo > $D/ready; while [ ! -e $D/go ]; do sleep 0.01; done; exit 0`
	w := start(t, s.nodes, []string{"run", "k", "--", "/bin/bash", "-c", text}) // bash has traps for all
	w.file("ready")
	for _, one := range signals {
		w.signal(one)
		w.file(fmt.Sprint("got.", int(one)))
	}
	w.touch("go")
	w.ends(exitOK)
}

// Go does not tell which others were ignored when it began.
func TestSignalsThatRunIgnoresTheProgramIgnoresToo(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	for _, names := range []string{"", "HUP", "INT TSTP TTIN TTOU"} {
		var want uint64
		for _, name := range strings.Fields(names) {
			want |= 1 << (unix.SignalNum("SIG"+name) - 1)
		}
		var out strings.Builder
		w := start(t, s.nodes, []string{"run", "k", "--", "grep", "SigIgn", "/proc/self/status"}, func(c *exec.Cmd) {
			c.Stdout = &out
			c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `for s in HUP INT TSTP TTIN TTOU; do trap - $s; done; for s in ` + names + `; do trap '' $s; done; exec "$0" "$@"`}, c.Args...)
		})
		code := w.code()
		_, mask, _ := strings.Cut(strings.TrimSpace(out.String()), "\t")
		if got, err := strconv.ParseUint(mask, 16, 64); code != exitOK || err != nil || got&0x380003 != want {
			t.Errorf("run that ignores %q ended with %d, and its program says %q, want the mask %#x", names, code, out.String(), want)
		}
	}
}

// A program that starts what its user may leaves the two processes above it no thread to start.
func TestAProgramThatUsesUpAllProcessesEndsNeitherOfThoseAboveIt(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run it as users that have nothing else to run")
	}
	s := newMasters(t, 3)
	self, err := os.Open(os.Args[0]) //nolint:gosec // this test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	const text = `n=0; while [ $n -lt 150 ]; do n=$((n+1)); sleep 1000 & done` // the shell ends when it cannot start one
	for user := range 3 {
		id := 29200 + user
		w := start(t, s.nodes, script("--grace 100ms", text), func(c *exec.Cmd) {
			folder := strings.TrimPrefix(c.Env[len(c.Env)-1], "D=")
			if err := errors.Join(os.Chmod(filepath.Dir(folder), 0o711), os.Chown(folder, id, id)); err != nil { //nolint:gosec // the user has to come in
				t.Fatal(err)
			}
			c.ExtraFiles = append(c.ExtraFiles, self)
			c.Path, c.Args = "/bin/bash", append([]string{"bash", "-c", `ulimit -u 100; exec /proc/self/fd/4 "$@"`}, c.Args...)
			c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)} //nolint:gosec // it is small
		})
		w.await("remaining")
		w.await("extended")
		w.signal(syscall.SIGTERM)
		// 2 is the shell's.
		if code := w.code(); code != 2 || !w.has("released") || !strings.Contains(w.talk.String(), "ork") {
			t.Errorf("run ended with %d, released: %v; want 2, and that: %.300s", code, w.has("released"), w.talk.String())
		}
	}
}

func TestMonitorsAreToldWhatARunHasComeTo(t *testing.T) {
	t.Parallel()
	patient.Scaled(t, func(t testing.TB, scale time.Duration) {
		s := newMasters(t, 3)
		addr, textfile := redisserver.FreeAddr(t), filepath.Join(t.TempDir(), "run.prom")
		w := start(t, s.nodes, script(briefly(scale, 2*time.Second)+" --restart --listen "+addr+" --textfile "+textfile, `if [ -e $D/second ]; then exit 4; fi; echo > $D/ready; exec sleep 1000`))
		w.file("ready")
		w.await("extended")
		page := func() string {
			_, text := get(t, addr+"/metrics", "text/plain; version=0.0.4; charset=utf-8")
			return text
		}
		has := func(text string, wants ...string) {
			t.Helper()
			for _, want := range wants {
				if !regexp.MustCompile(`(?m)^quorumlock_run_` + want + `$`).MatchString(text) {
					t.Errorf("the metrics have no %s:\n%s", want, text)
				}
			}
		}
		const at = `_timestamp_seconds{key="k"} 1[0-9]{9}\.[0-9]{3}`
		has(page(), `held{key="k"} 1`, "held_since"+at, "lease_until"+at, `renewals_total{key="k"} [1-9][0-9]*`, `leases_lost_total{key="k"} 0`, `starts_total{key="k"} 1`)
		thaw := s.freeze()
		w.await("lost")
		w.await("waiting", func(e runEvent) bool { return e.Time.After(w.await("lost").Time) })
		has(page(), `held{key="k"} 0`, "waiting_since"+at, `leases_lost_total{key="k"} 1`)
		w.touch("second")
		thaw()
		w.ends(4)
		text, err := os.ReadFile(textfile) //nolint:gosec // the test's own
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range alerted(t, "run") {
			has(string(text), strings.TrimPrefix(name, "quorumlock_run_")+`\{key="k"\} .*`)
		}
		has(string(text), `held{key="k"} 0`, `leases_lost_total{key="k"} 1`, `starts_total{key="k"} 2`, `exit_code{key="k"} 4`, "exit"+at)
		if info, err := os.Stat(textfile); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("the textfile is %v (%v), want it readable to all", info.Mode(), err)
		}
		if all, err := os.ReadDir(filepath.Dir(textfile)); err != nil || len(all) != 1 {
			t.Errorf("beside the textfile there are %v (%v), want nothing", all, err)
		}
	})
}

// initSystem is a socket that stands for an init system's, and what it is told next.
func initSystem(t testing.TB) (socket string, told func() string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "notify")
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	buf := make([]byte, 1000)
	return "NOTIFY_SOCKET=" + socket, func() string {
		_ = conn.SetReadDeadline(time.Now().Add(patient.Guard))
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

func TestTheWatchdogOfTheInitSystemIsFed(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 1)
	for _, tt := range []struct {
		pid string // whose watchdog it is; "": that of this command
		fed bool
	}{{"", true}, {"1", false}} {
		socket, told := initSystem(t)
		w := start(t, s.nodes, script("", `test -z "$WATCHDOG_USEC$WATCHDOG_PID$NOTIFY_SOCKET" || exit 3; while [ ! -e $D/go ]; do sleep 0.01; done`), func(c *exec.Cmd) {
			c.Env = append(c.Env, socket, "WATCHDOG_USEC=20000", "WATCHDOG_PID="+tt.pid)
		})
		fed := 0
		for last := ""; last != "STOPPING=1"; {
			if fed == 5 || !tt.fed {
				w.touch("go")
			}
			if last = told(); last == "WATCHDOG=1" {
				fed++
			}
		}
		if code := w.code(); code != 0 || tt.fed != (fed >= 5) || !tt.fed && fed > 0 {
			t.Errorf("run ended with %d, and fed the watchdog of process %q %d times; want 0, and that it does: %t", code, tt.pid, fed, tt.fed)
		}
	}
}

// A program is run again when its lock was lost, or runs on, and the init system is told. The code is that of the last
// one.
func TestTheInitSystemIsTold(t *testing.T) {
	t.Parallel()
	const second = `if [ -e $D/second ]; then exit 4; fi; while :; do sleep 0.01; done`
	once := []string{"STATUS=waiting for k", "READY=1\nSTATUS=has k"}
	twice := slices.Concat(once, once, []string{"STOPPING=1"})
	for _, tt := range []struct {
		flags, program string
		want           []string
	}{
		{"", `exit 4`, append(once, "STOPPING=1")},
		{"--restart", second, twice},
		{"--restart --shared", second, twice},
		{"--restart --permits 2 --take 2", second, twice},
		{"--on-renewal-failure report", `while [ ! -e $D/second ]; do sleep 0.01; done; exit 4`, append(once, "STATUS=has lost k, and the program runs on", "STOPPING=1")},
	} {
		patient.Scaled(t, func(t testing.TB, scale time.Duration) {
			flags := tt.flags
			if flags != "" {
				flags += " " + briefly(scale, 2*time.Second)
			}
			s := newMasters(t, 1)
			socket, next := initSystem(t)
			w := start(t, s.nodes, script(flags, tt.program), func(c *exec.Cmd) { c.Env = append(c.Env, socket) })
			if flags != "" {
				w.await("started")
				thaw := s.freeze()
				w.await("lost")
				w.touch("second")
				thaw()
			}
			if code := w.code(); code != 4 || w.has("stopping") && !strings.Contains(flags, "--restart") {
				t.Fatalf("run %s ended with %d, and has stopped its program: %v; want 4, and that only to run it again: %s", flags, code, w.has("stopping"), w.talk.String())
			}
			var told []string
			for len(told) == 0 || told[len(told)-1] != "STOPPING=1" {
				told = append(told, next())
			}
			if told = slices.Compact(told); !slices.Equal(told, tt.want) { // a campaign that fails is repeated
				t.Errorf("run %s: the init system was told %q, want %q", flags, told, tt.want)
			}
		})
	}
}

func TestAnObserverPrintsWhoLeads(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	out, err := os.Create(filepath.Join(t.TempDir(), "lines"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	observer := start(t, s.nodes, strings.Fields("elect --observe -o jsonl k"), func(c *exec.Cmd) { c.Stdout = out })
	observer.folder = filepath.Dir(out.Name())
	lines := func(n int) (all []leaderLine) { // once there are so many
		patient.Until(t, fmt.Sprintf("the observer has printed %d lines", n), func() bool {
			all = nil
			for _, text := range strings.Split(observer.file("lines"), "\n") {
				if faults := conforms(t, "leader.v1.json", text); faults != nil {
					t.Fatalf("%s: %q", text, faults)
				}
				var line leaderLine
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					t.Fatal(err)
				}
				all = append(all, line)
			}
			return len(all) >= n
		})
		return all
	}
	lines(1)
	candidate := start(t, s.nodes, strings.Fields("elect --name me k"))
	lines(2)
	candidate.signal(syscall.SIGTERM)
	candidate.code()
	all := lines(3)
	if all[0].Leader != "" || all[1].Leader != "me" || all[1].Term == "" || all[2].Leader != "" {
		t.Errorf("the observer prints %+v, want nobody, me and nobody", all)
	}
	observer.signal(syscall.SIGTERM)
	if code := observer.code(); code != 128+int(syscall.SIGTERM) || observer.has("waiting") {
		t.Errorf("an observer that was asked to end ended with %d, want 143: %s", code, observer.talk.String())
	}
	text := (&leaderLine{Time: time.Unix(0, 0).UTC()}).String() + (&leaderLine{Time: time.Unix(1, 0).UTC(), Leader: "web-7"}).String()
	if want := "1970-01-01T00:00:00Z nobody leads\n1970-01-01T00:00:01Z web-7 leads\n"; text != want {
		t.Errorf("as text the lines are %q, want %q", text, want)
	}
}

func TestACandidateLeadsAndSaysSo(t *testing.T) {
	t.Parallel()
	patient.Scaled(t, func(t testing.TB, scale time.Duration) {
		s := newMasters(t, 3)
		addr := redisserver.FreeAddr(t)
		w := start(t, s.nodes, append(strings.Fields("elect "+briefly(scale, 3*time.Second)),
			"--fences", "--name", "me", "--listen", addr,
			"--on-elected", hookFile(t, "echo $QUORUMLOCK_KEY $QUORUMLOCK_FENCE > $D/hook.elected"), "--on-lost", hookFile(t, "echo > $D/hook.over"),
			"k", "--", "/bin/sh", "-c", `echo > $D/ready; exec sleep 1000`,
		))
		w.file("ready")
		other := start(t, s.nodes, []string{"elect", "--name", "other", "k"})
		fence := w.await("acquired").Fence
		if got := w.file("hook.elected"); !strings.HasPrefix(got, "k ") || fence == 0 {
			t.Errorf("--on-elected was told %q under fence %d", got, fence)
		}
		for path, want := range map[string]int{"/leader": 200, "/healthz": 200, "/": 200, "/none": 404} {
			if code, _ := get(t, addr+path); code != want {
				t.Errorf("%s answers %d, want %d", path, code, want)
			}
		}
		patient.Until(t, fmt.Sprintf("/ says that me leads, by fence %d", fence), func() bool { // the observer hears of it from the nodes
			_, text := get(t, addr+"/")
			return text == fmt.Sprintf(`{"name":"me","fence":%d,"leads":true}`+"\n", fence)
		})
		thaw := s.freeze()
		sick := false
		for !w.has("lost") {
			code, _ := get(t, addr+"/healthz")
			sick = sick || code == 503
			time.Sleep(5 * time.Millisecond) //nolint:forbidigo // a probe's pause
		}
		if code, _ := get(t, addr+"/leader"); !sick || code == 200 && !w.has("stopping") {
			t.Errorf("without nodes /healthz was 503: %v, and /leader answers %d", sick, code)
		}
		w.file("hook.over")
		if code, _ := get(t, addr+"/leader"); code != 503 {
			t.Errorf("when the term is over /leader answers %d, want 503", code)
		}
		w.signal(syscall.SIGTERM)
		w.ends(143) // or it might be elected again
		thaw()
		other.await("acquired")
		other.signal(syscall.SIGTERM)
		other.ends(143)
	})
}
