//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/patient"
)

// The lease is not renewed: TERM comes at deadline − grace − margin, and SIGKILL to everything at
// deadline − margin.
func TestWhatIgnoresTheSignalIsKilledBeforeTheDeadline(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	patient.AtScales(t, func(scale time.Duration) error {
		file := filepath.Join(t.TempDir(), "times")
		l, events := holdFor(scale*3*time.Second), new(record)
		end := deadline(l)
		got := await(t, begin(t, l, Program{Path: self, Args: []string{self, tickerName, file}},
			Options{TTL: scale * roomy, Grace: scale * 300 * time.Millisecond, Events: events.add}))
		if got.err != nil || !got.Lost || got.Signal != syscall.SIGKILL {
			return fmt.Errorf("Run = %+v, want it lost, and killed by SIGKILL", got)
		}
		if events.has(Stopping) != 1 || events.has(Killed) != 1 || events.has(Lost) != 1 {
			return fmt.Errorf("events %v, want stopping, killed and lost", events.events)
		}
		text, err := os.ReadFile(file) //nolint:gosec // the test's own
		if err != nil {
			return err
		}
		lines := strings.Split("none\n"+string(text), "\n") // the last one is empty, or was cut off
		line := lines[len(lines)-2]
		last, err := strconv.ParseInt(line, 10, 64)
		if left := end - time.Duration(last); err != nil || left <= 0 || left > scale*time.Second {
			return fmt.Errorf("the last write, %q, was %v before the deadline, want some %v: the margin", line, left, scale*200*time.Millisecond)
		}
		return nil
	})
}

func TestTheSignalComesWhenTheGraceBegins(t *testing.T) {
	patient.AtScales(t, func(scale time.Duration) error {
		l := holdFor(scale * 4 * time.Second)
		end := deadline(l)
		p, folder := script(t, `trap 'echo > $D/asked; exit 3' TERM; echo > $D/ready; while :; do sleep 0.01; done`)
		var asked time.Duration
		got := await(t, begin(t, l, p, Options{TTL: scale * roomy, Grace: scale * time.Second, Events: func(e Event) {
			if e.What == Stopping {
				asked = end - now()
			}
		}}))
		_, heard := written(folder, "asked")
		if got.err != nil || !got.Lost || got.Code != 3 || !heard || asked > scale*1250*time.Millisecond {
			return fmt.Errorf("Run = %+v, and it was asked %v before the deadline (it heard that: %t), want it lost, code 3, and some %v", got, asked, heard, scale*1200*time.Millisecond)
		}
		return nil
	})
}

// Whoever asks in vain kills the caller of Run next, and then the key stays until its lease ends. So TERM, and a second HUP
// or INT, is an order to stop.
func TestWhatDoesNotEndWhenAskedIsKilledAfterTheGrace(t *testing.T) {
	deaf := `trap '' HUP INT TERM; echo > $D/ready; while :; do sleep 0.01; done`
	daemon, hears := `setsid sh -c "$DAEMON" & exit 0`, `trap 'echo > $D/asked; exit' HUP; echo > $D/ready; `
	for _, tt := range []struct {
		name, text, daemon string
		signals            []os.Signal
		want               int
	}{
		{"a program that ignores TERM", deaf, "", []os.Signal{syscall.SIGTERM}, 137},
		{"one that ignores INT", deaf, "", []os.Signal{syscall.SIGINT, syscall.SIGINT}, 137},
		{"one that ignores HUP", deaf, "", []os.Signal{syscall.SIGHUP, syscall.SIGHUP}, 137},
		{"a daemon that ignores TERM", daemon, deaf, []os.Signal{syscall.SIGTERM}, 0},
		{"a daemon", daemon, hears + `while :; do sleep 0.01; done`, []os.Signal{syscall.SIGHUP}, 0},
		{"a daemon that is stopped", daemon, hears + `kill -STOP $$`, []os.Signal{syscall.SIGHUP}, 0},
	} {
		p, folder := script(t, tt.text)
		p.Env = append(p.Env, "DAEMON="+tt.daemon)
		signals, events := make(chan os.Signal, len(tt.signals)), new(record)
		over := begin(t, holdFor(long), p, Options{TTL: long, Grace: 300 * time.Millisecond, Signals: signals, Events: events.add})
		awaitFile(t, folder, "ready")
		if tt.daemon != "" {
			events.await(t, over, Remaining, 1)
		}
		for _, s := range tt.signals {
			signals <- s
		}
		got, killed := await(t, over), 0
		if tt.text == deaf || tt.daemon == deaf {
			killed = 1
		}
		if _, asked := written(folder, "asked"); got.err != nil || got.Lost || got.Code != tt.want || events.has(Killed) != killed || asked == (killed == 1) {
			t.Errorf("%s: Run = %+v, killed %d times, it heard the signal: %t; want code %d, not lost, and killed only if it ignores the signal", tt.name, got, events.has(Killed), asked, tt.want)
		}
	}
}

func TestDescendantsOfTheirOwnDieWithTheProgram(t *testing.T) {
	for name, text := range map[string]string{
		"a child":                          `sleep 1000 & echo $! > $D/pid; wait`,
		"a child of another session":       `setsid sh -c 'echo $$ > $D/pid; exec sleep 1000' & wait`,
		"one that its parents left":        `(setsid sh -c 'echo $$ > $D/pid; trap "" TERM; while :; do sleep 0.01; done' &) ; exec sleep 1000`,
		"one whose program has ended":      `setsid sh -c 'echo $$ > $D/pid; trap "" TERM; while :; do sleep 0.01; done' & exit 0`,
		"one that is stopped":              `sh -c 'echo $$ > $D/pid; kill -STOP $$' & wait`,
		"one that starts others as it can": `sh -c 'echo $$ > $D/pid; while :; do setsid sleep 100 & sleep 0.02; done' & wait`,
	} {
		p, folder := script(t, text)
		l := holdFor(long)
		over := begin(t, l, p, Options{TTL: roomy, Grace: 100 * time.Millisecond})
		pid := awaitPid(t, folder, "pid")
		if len(descendants(t, folder)) == 0 {
			t.Errorf("%s: no descendant is seen while it runs", name)
		}
		l.extend(-1)
		got := await(t, over)
		if s := state(pid); runs(s) {
			t.Errorf("%s still runs (state %s) when Run has returned %+v, %v", name, s, got.Result, got.err)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !got.Lost || got.err != nil {
			t.Errorf("%s: Run = %+v, %v, want it lost", name, got.Result, got.err)
		}
		for _, pid := range descendants(t, folder) {
			t.Errorf("%s: the descendant %d has outlived Run", name, pid)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// One call is enough for a tree of any shape: nobody waits until parents have ended.
func TestAllOfATreeIsKilledAtOnce(t *testing.T) {
	if err := adopt(); err != nil {
		t.Fatal(err)
	}
	if !listed() {
		t.Error("this kernel was built without CONFIG_PROC_CHILDREN: how others list children was not tested")
	}
	allOfATree(t)
	defer func(before func() bool) { listed = before }(listed)
	listed = func() bool { return false }
	allOfATree(t)
}

func allOfATree(t *testing.T) {
	for name, text := range map[string]string{
		"a chain of sessions":                  `trap '' TERM; if [ $N -gt 0 ]; then N=$((N-1)) setsid sh -c "$TEXT" & wait; else echo > $D/ready; exec sleep 1000; fi`,
		"a fan of daemons":                     `while [ $N -gt 0 ]; do N=$((N-1)); (setsid sh -c 'sleep 1000 & sleep 1000' &); done; echo > $D/ready; exec sleep 1000`,
		"one that starts what is killed again": `echo > $D/ready; while :; do setsid sh -c 'exec sleep 1000'; done`,
	} {
		folder := t.TempDir()
		program := exec.CommandContext(t.Context(), "/bin/sh", "-c", text) //nolint:gosec // the test's own
		program.Env = append(os.Environ(), "D="+folder, "N=60", "TEXT="+text)
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		awaitFile(t, folder, "ready")
		start := time.Now()
		killBelow()
		t.Logf("%s: killed in %v (lists of children: %v)", name, time.Since(start), listed()) //nolint:forbidigo // nothing is judged by it
		patient.Until(t, "all processes are killed of "+name, func() bool { return len(descendants(t, folder)) == 0 })
		_ = program.Wait()
		for _, pid := range children() {
			reap(pid)
		}
	}
}

// The kernel spins in a wait for a child that has ended while others remove what /proc has of it: under
// a real-time policy for up to a second, in which no other guard of the machine kills in time.
func TestWhoKillsComesBeforeOthersAndWhoReapsDoesNot(t *testing.T) {
	p, folder := script(t, `echo $PPID > $D/guard; while [ ! -e $D/go ]; do sleep 0.01; done`)
	over := begin(t, holdFor(long), p, Options{TTL: long})
	guard := awaitPid(t, folder, "guard")
	policy := func(thread int) uintptr {
		is, _, _ := syscall.RawSyscall(syscall.SYS_SCHED_GETSCHEDULER, uintptr(thread), 0, 0)
		return is
	}
	hurries := make(chan bool)
	go func() { // the thread ends with this function
		runtime.LockOSThread()
		schedule(0, schedRR, 1)
		hurries <- policy(0) == schedRR
	}()
	may, kills := <-hurries, uintptr(schedOther) // root may
	if may {
		kills = schedRR
	}
	patient.Until(t, fmt.Sprintf("the thread that kills has policy %d, and only the one that reaps the ordinary one", kills), func() bool {
		killer, ordinary := policy(guard), 0
		for _, thread := range names(fmt.Sprintf("/proc/%d/task", guard)) {
			if id, _ := strconv.Atoi(thread); policy(id) == schedOther {
				ordinary++
			}
		}
		return killer == kills && (ordinary == 1 || !may)
	})
	letGo(t, folder)
	await(t, over)
}

// A program that leaves work behind holds the lock until that is done. Meanwhile its number, which
// is that of its group, is nobody else's.
func TestTheProgramIsNotOverBeforeItsDescendantsAre(t *testing.T) {
	p, folder := script(t, `echo $$ > $D/leader; (setsid sh -c 'while [ ! -e $D/go ]; do sleep 0.01; done; echo > $D/done' &); exit 5`)
	events := new(record)
	over := begin(t, holdFor(long), p, Options{TTL: long, Events: events.add})
	leader := awaitPid(t, folder, "leader")
	events.await(t, over, Remaining, 1)
	if s := state(leader); s != "Z" {
		t.Errorf("the program is %q while a descendant runs, want Z: a signal to its number could meet another process", s)
	}
	letGo(t, folder)
	got := await(t, over)
	if _, err := os.Stat(filepath.Join(folder, "done")); err != nil || got.Code != 5 || got.err != nil || got.Lost {
		t.Errorf("Run = %+v, %v, and the descendant's work: %v, want code 5 after the work is done", got.Result, got.err, err)
	}
}

func TestAProgramUnderARenewedLeaseIsLeftAlone(t *testing.T) {
	patient.AtScales(t, func(scale time.Duration) error {
		l, events := holdFor(scale*3*time.Second), new(record)
		p, folder := script(t, `while [ ! -e $D/go ]; do sleep 0.01; done; exit 4`)
		over := begin(t, l, p, Options{TTL: scale * roomy, Grace: scale * 200 * time.Millisecond, Events: events.add})
		renewal := time.NewTicker(scale * time.Second)
		defer renewal.Stop()
		for i := range 4 { // longer in all than the first lease
			<-renewal.C
			l.extend(scale * 3 * time.Second)
			events.await(t, over, Extended, i+1)
		}
		letGo(t, folder)
		if got := await(t, over); got.err != nil || got.Code != 4 || got.Lost || events.has(Stopping) != 0 {
			return fmt.Errorf("Run = %+v with events %v, want code 4 and no stop", got, events.events)
		}
		return nil
	})
}

// One that was asked to end is stopped even if a renewal succeeds at last.
func TestALateRenewalChangesNothing(t *testing.T) {
	l := holdFor(long)
	p, folder := script(t, `trap '' TERM; echo > $D/ready; while :; do sleep 0.01; done`)
	over := begin(t, l, p, Options{TTL: 2 * time.Second, Grace: 500 * time.Millisecond, Events: func(e Event) { // it is read 16 times in a TTL
		if e.What == Stopping {
			l.extend(2 * long)
		}
	}})
	awaitFile(t, folder, "ready")
	l.extend(-1)
	if got := await(t, over); got.err != nil || !got.Lost || got.Signal != syscall.SIGKILL {
		t.Errorf("Run = %+v, %v, want it lost and killed after the grace", got.Result, got.err)
	}
}

func TestALeaseThatEndsEarlyStopsTheProgram(t *testing.T) {
	patient.AtScales(t, func(scale time.Duration) error {
		l := holdFor(long)
		p, folder := script(t, `echo > $D/ready; exec sleep 1000`)
		over := begin(t, l, p, Options{TTL: scale * 2 * time.Second, Grace: scale * 500 * time.Millisecond})
		awaitFile(t, folder, "ready")
		l.extend(-time.Second) // released by somebody else
		if got := await(t, over); got.err != nil || !got.Lost || got.Signal != syscall.SIGTERM {
			return fmt.Errorf("Run = %+v, want it lost and ended by SIGTERM", got)
		}
		return nil
	})
}

func TestAKilledGuardTakesTheProgramWithIt(t *testing.T) {
	for name, how := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped for ever": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			patient.AtScales(t, func(scale time.Duration) error {
				l := holdFor(scale * 3 * time.Second)
				p, folder := script(t, `trap '' TERM; setsid sh -c 'echo $$ > $D/child; exec sleep 1000' & echo $$ > $D/pid; echo $PPID > $D/guard; while :; do sleep 0.01; done`)
				over := begin(t, l, p, Options{TTL: scale * 8 * roomy, Grace: scale * 100 * time.Millisecond, Alone: true}) // of whose margin half is for this process
				pids := awaitPids(t, over, folder, "guard", "pid", "child")
				if pids == nil || syscall.Kill(pids[0], how) != nil {
					return fmt.Errorf("Run = %+v before the guard was %s", await(t, over), name)
				}
				got := await(t, over)
				if !errors.Is(got.err, ErrGuard) || !got.Lost || time.Now().After(l.Until()) {
					return fmt.Errorf("Run = %+v, %v after the deadline, want ErrGuard, and before", got, -time.Until(l.Until()))
				}
				for _, pid := range pids[1:] {
					if s := state(pid); runs(s) {
						_ = syscall.Kill(pid, syscall.SIGKILL)
						return fmt.Errorf("of the program %d and its child %d, %d still runs (state %s)", pids[1], pids[2], pid, s)
					}
				}
				return nil
			})
		})
	}
}

// Nobody renews any more, and nobody could report: the guard stops the program by itself.
func TestAProgramDoesNotOutliveItsRenewer(t *testing.T) {
	for name, tt := range map[string]struct {
		how   syscall.Signal
		lease time.Duration
	}{
		"killed":           {syscall.SIGKILL, long},
		"stopped for ever": {syscall.SIGSTOP, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			patient.AtScales(t, func(scale time.Duration) error { return outlives(t, tt.how, scale*tt.lease) })
		})
	}
}

// outlives is an error if something of a program is there at the deadline, or the guard after it.
func outlives(t *testing.T, how syscall.Signal, lease time.Duration) error {
	folder := t.TempDir()
	text := `trap '' TERM; setsid sh -c 'echo $$ > $D/child; exec sleep 1000' & echo $PPID > $D/guard; while :; do sleep 0.01; done`
	renewer := exec.CommandContext(t.Context(), os.Args[0], renewerName, lease.String(), text) //nolint:gosec // this test
	renewer.Env = append(os.Environ(), "D="+folder)
	if err := renewer.Start(); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- renewer.Wait() }()
	defer func() {
		_ = renewer.Process.Kill()
		<-over //nolint:errcheck // it was killed
	}()
	pids := awaitPids(t, over, folder, "guard", "child")
	if pids == nil {
		return errors.New("the program has ended before its renewer did")
	}
	until, err := strconv.ParseInt(awaitFile(t, folder, "until"), 10, 64)
	if err != nil {
		return err
	}
	if err := renewer.Process.Signal(how); err != nil {
		return err
	}
	end, inTime := time.Unix(0, until), false
	patient.Until(t, "a descendant of the program has ended, or its deadline has passed", func() bool {
		inTime = !runs(state(pids[1])) && time.Now().Before(end)
		return inTime || time.Now().After(end)
	})
	if !inTime {
		_ = syscall.Kill(pids[1], syscall.SIGKILL)
		return errors.New("a descendant still ran at the deadline")
	}
	_ = renewer.Process.Kill()
	patient.Until(t, "the guard has ended, whose program is gone", func() bool { return !runs(state(pids[0])) })
	return nil
}
