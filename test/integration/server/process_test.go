package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// launch starts an ordinary server for one test.
func launch(t *testing.T, args ...string) *Process {
	t.Helper()
	return launchAs(t, Setup{Args: args})
}

// launchAs starts a server for one test, or skips the test where it cannot run: the
// suite of package integration says in one line that processes did not run.
func launchAs(t *testing.T, setup Setup) *Process {
	t.Helper()
	p, err := setup.Launch()
	if Missing(err) && !redisserver.Required("processes") {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends one command, which the server must take.
func ask(t *testing.T, p *Process, words ...string) string {
	t.Helper()
	answer, err := p.Do(words...)
	must(t, err)
	return answer
}

func TestKillAndStart(t *testing.T) {
	for _, tt := range []struct {
		disk string
		args []string
		want string
	}{
		{"no persistence", nil, ""},
		{"an append-only file", []string{"--appendonly", "yes", "--appendfsync", "always"}, "1"},
	} {
		t.Run(tt.disk, func(t *testing.T) {
			p := launch(t, tt.args...)
			addr := p.Addr()
			ask(t, p, "SET", "k", "1")
			must(t, p.Kill())
			if _, err := p.Do("PING"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a killed server: %v, want connection refused", err)
			}
			must(t, p.Start())
			if p.Addr() != addr {
				t.Errorf("the address went from %s to %s", addr, p.Addr())
			}
			if got := ask(t, p, "GET", "k"); got != tt.want {
				t.Errorf("GET after a restart with %s = %q, want %q", tt.disk, got, tt.want)
			}
		})
	}
}

func TestPauseAndContinue(t *testing.T) {
	p := launch(t)
	must(t, p.Pause())
	if got, err := do(t.Context(), p.Addr(), 50*time.Millisecond, "PING"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server: PING = %q, %v, want silence", got, err)
	}
	must(t, p.Continue())
	if got := ask(t, p, "PING"); got != "PONG" {
		t.Errorf("a server that goes on: PING = %q", got)
	}
	must(t, p.Pause())
	if err := p.Kill(); err != nil {
		t.Errorf("Kill of a paused server: %v", err)
	}
}

func TestKillEndsWhatWritesTheData(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a process does is read in /proc")
	}
	p := launch(t, "--appendonly", "yes", "--rdb-key-save-delay", "1000000") // a fork takes a second a key
	for i := range 60 {
		ask(t, p, "SET", strconv.Itoa(i), "1")
	}
	ask(t, p, "BGREWRITEAOF")
	var file, pid string
	patient.Until(t, "a fork writes the data", func() bool {
		files, err := filepath.Glob(filepath.Join(p.data(), "temp-rewriteaof-*.aof"))
		must(t, err)
		file = strings.Join(files, "")
		_, pid, _ = strings.Cut(strings.TrimSuffix(file, ".aof"), "temp-rewriteaof-")
		return file != ""
	})
	runs := func() bool {
		stat, _ := os.ReadFile(filepath.Join("/proc", pid, "stat")) //nolint:gosec // of our own fork; none is none
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		if len(fields) < 7 {
			return false
		}
		flags, err := strconv.Atoi(fields[6])
		must(t, err)
		const exiting = 0x4 // PF_EXITING of Linux: it closes its files, or has
		return flags&exiting == 0
	}
	if !runs() {
		t.Fatalf("%s has no process", file)
	}
	must(t, p.Kill())
	if runs() {
		t.Errorf("the process that writes %s goes on after Kill", file)
	}
}

func TestLaunchSaysWhy(t *testing.T) {
	if _, err := Find(); err != nil {
		t.Skip(err)
	}
	_, err := Launch("--no-such-setting", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("Launch with a bad setting: %v, want what the server's log says of no-such-setting", err)
	}
}

func TestNoPortIsGivenTwice(t *testing.T) {
	given := map[int]bool{}
	for range 500 { // of random ports some are the same
		port, err := redisserver.FreePort()
		must(t, err)
		if given[port] {
			t.Fatalf("port %d again, after %d others", port, len(given))
		}
		given[port] = true
	}
}

func TestMain(m *testing.M) { leak.Main(m) }

func TestStepClock(t *testing.T) {
	const slack = time.Minute // for slow machines
	p := launchAs(t, Setup{Clock: true, Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	ask(t, p, "SET", "half an hour", "1", "PX", "1800000")
	ask(t, p, "SET", "a day", "1", "PX", "86400000")
	for _, step := range []struct {
		name  string
		do    func() error
		ahead time.Duration
		short string // what the server then has at "half an hour"
		lease time.Duration
	}{
		{"at first", func() error { return nil }, 0, "1", 24 * time.Hour},
		{"a step back", func() error { return p.StepClock(-2 * time.Hour) }, -2 * time.Hour, "1", 26 * time.Hour},
		{"a step ahead", func() error { return p.StepClock(3 * time.Hour) }, time.Hour, "", 23 * time.Hour},
		{"a crash", func() error { return errors.Join(p.Kill(), p.Start()) }, time.Hour, "", 23 * time.Hour},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got, err := p.wallClock(); err != nil || (got-step.ahead).Abs() > slack {
			t.Errorf("after %s the server's clock is %v ahead (%v), want %v", step.name, got, err, step.ahead)
		}
		if got := ask(t, p, "GET", "half an hour"); got != step.short {
			t.Errorf("after %s a key of half an hour is %q, want %q", step.name, got, step.short)
		}
		left, err := time.ParseDuration(ask(t, p, "PTTL", "a day") + "ms")
		if err != nil || (left-step.lease).Abs() > slack {
			t.Errorf("after %s a key of a day has %v left (%v), want %v", step.name, left, err, step.lease)
		}
	}
}

func TestStepClockNeedsAClock(t *testing.T) {
	if err := launch(t).StepClock(time.Hour); err == nil {
		t.Error("a server without a clock of its own was stepped")
	}
}

// Only what an fsync brought to the disk before it was acknowledged is safe.
func TestPowerCut(t *testing.T) {
	const cuts = 3
	for _, tt := range []struct {
		policy string
		want   string
	}{
		{"always", "1"},
		{"everysec", ""},
		{"no", ""},
	} {
		t.Run("appendfsync "+tt.policy, func(t *testing.T) {
			p := launchAs(t, Setup{Disk: true, Args: []string{"--appendonly", "yes", "--appendfsync", tt.policy}})
			for range cuts {
				if tt.policy != "always" { // which would wait for the disk
					must(t, p.HoldDisk())
				}
				ask(t, p, "SET", "k", "1")
				must(t, p.PowerCut())
				must(t, p.Start())
				if got := ask(t, p, "GETDEL", "k"); got != tt.want {
					t.Errorf("GETDEL of an acknowledged write = %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestPowerCutNeedsADisk(t *testing.T) {
	p := launch(t)
	if err := p.PowerCut(); err == nil {
		t.Error("power was cut to a server without a disk of its own")
	}
	if err := p.HoldDisk(); err == nil {
		t.Error("the machine's disk was held")
	}
}

// What WAIT has confirmed is on the replica when it takes its master's place.
func TestPromote(t *testing.T) {
	master, replica := launch(t), launch(t)
	ask(t, master, "SET", "before", "1")
	must(t, replica.Follow(master))
	if got := ask(t, replica, "GET", "before"); got != "1" {
		t.Errorf("a replica has %q of what its master had before, want 1", got)
	}
	if _, err := replica.Do("SET", "k", "1"); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a write to a replica: %v, want READONLY", err)
	}

	client := redis.NewClient(&redis.Options{Addr: master.Addr(), DisableIdentity: true, Protocol: 2})
	defer func() { _ = client.Close() }()
	conn := client.Conn() // WAIT speaks of its own connection's writes
	defer func() { _ = conn.Close() }()
	must(t, conn.Set(t.Context(), "waited for", 1, 0).Err())
	if n, err := conn.Wait(t.Context(), 1, startTimeout).Result(); n != 1 || err != nil {
		t.Fatalf("WAIT = %d, %v, want one replica", n, err)
	}
	must(t, master.Kill())
	must(t, replica.Promote())
	if got := ask(t, replica, "GET", "waited for"); got != "1" {
		t.Errorf("the new master has %q, want 1", got)
	}
	ask(t, replica, "SET", "k", "1")
}

func TestFollowSaysWhy(t *testing.T) {
	p, dead := launch(t), launch(t)
	must(t, dead.Kill())
	watch := patient.Start()
	err := p.Follow(dead)
	if took := watch.Took(); err == nil || took > startTimeout/4 {
		t.Errorf("following a dead master: %v after %v, want an error at once", err, took)
	}
}
