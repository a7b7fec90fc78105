//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/supervise"
	"github.com/quorumlock/quorumlock/test/patient"
)

// What this program is when a test starts it.
const (
	asCommand  = "QUORUMLOCK_TEST_COMMAND" // a variable: the command
	tickerName = "test-ticker"             // an argument: a program that writes the time
)

// other makes this process the command, its guard or a program, if a test has started it as one.
func other() {
	supervise.Init()
	switch {
	case len(os.Args) == 3 && os.Args[1] == tickerName:
		tick(os.Args[2])
	case os.Getenv(asCommand) != "":
		main()
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // or processes with the race detector end a second late
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if signal.Ignored(s) { // by who runs the tests; what they start should not
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// tick writes the time to a file every millisecond, and ignores what asks it to end.
func tick(name string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	file, err := os.Create(name) //nolint:gosec // the test's own
	if err != nil {
		panic(err)
	}
	for range time.Tick(time.Millisecond) {
		_, _ = fmt.Fprintln(file, time.Now().UnixNano())
	}
}

// ticks are the first and the last time that a ticker has written.
func ticks(t testing.TB, name string) (first, last time.Time) {
	t.Helper()
	text, err := os.ReadFile(name) //nolint:gosec // the test's own
	lines := strings.SplitAfter(string(text), "\n")
	if err != nil || len(lines) < 2 {
		t.Fatalf("the program has written nothing (%v)", err)
	}
	at := func(line string) time.Time {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(0, n)
	}
	return at(lines[0]), at(lines[len(lines)-2]) // the last may be cut short
}

// freeze stops all servers until the test ends, or thaw is called.
func (s *ward) freeze() (thaw func()) {
	var all []func()
	for _, server := range s.servers {
		all = append(all, server.Freeze())
	}
	return func() {
		for _, one := range all {
			one()
		}
	}
}

// left are the keys at all servers.
func (s *ward) left() (keys []string) {
	s.t.Helper()
	for _, server := range s.servers {
		for _, key := range server.Ask("KEYS", "*").Elems {
			keys = append(keys, key.Str)
		}
	}
	return keys
}

// A wrapper is a process of the command.
type wrapper struct {
	t      testing.TB
	cmd    *exec.Cmd
	folder string // of its program, as $D

	mu     sync.Mutex
	events []runEvent
	lines  []string
	ended  chan struct{} // it has ended, and its events were read
	talk   strings.Builder
}

// start starts the command with nodes, a verb and its arguments. Change changes the process.
func start(t testing.TB, nodes string, args []string, change ...func(*exec.Cmd)) *wrapper {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &wrapper{t: t, folder: t.TempDir(), ended: make(chan struct{})}
	w.cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{args[0], "--status-fd", "3"}, args[1:]...)...) //nolint:gosec // this test
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "QUORUMLOCK_") && !strings.HasPrefix(entry, "NOTIFY_SOCKET") {
			w.cmd.Env = append(w.cmd.Env, entry)
		}
	}
	w.cmd.Env = append(w.cmd.Env, asCommand+"=1", "QUORUMLOCK_NODES="+nodes, "XDG_RUNTIME_DIR="+w.folder, "HOME="+w.folder, "D="+w.folder)
	w.cmd.ExtraFiles = []*os.File{to}
	w.cmd.Stderr = &w.talk
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // no terminal of the tests is its own
	w.cmd.WaitDelay = 20 * time.Second
	for _, c := range change {
		c(w.cmd)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = to.Close()
	go func() {
		defer close(w.ended)
		for lines := bufio.NewScanner(from); lines.Scan(); {
			var e runEvent
			err := json.Unmarshal(lines.Bytes(), &e)
			w.mu.Lock()
			w.lines = append(w.lines, lines.Text())
			if err == nil {
				w.events = append(w.events, e)
			}
			w.mu.Unlock()
		}
		_ = from.Close()
		_ = w.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-w.ended
		for _, line := range w.lines {
			if faults := conforms(t, "run.v1.json", line); faults != nil {
				t.Errorf("%s: %q", line, faults)
			}
		}
	})
	return w
}

// script is the arguments that run a script of the shell.
func script(flags, text string) []string {
	return append(strings.Fields("run --ttl 20s "+flags), "k", "--", "/bin/sh", "-c", text)
}

// all are the events so far.
func (w *wrapper) all() []runEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]runEvent(nil), w.events...)
}

// await returns the first event with a name that fits.
func (w *wrapper) await(name string, fits ...func(runEvent) bool) (e runEvent) {
	w.t.Helper()
	patient.Until(w.t, "there is an event "+name, func() bool {
		over := w.over()
		for _, e = range w.all() {
			if e.Event == name && (len(fits) == 0 || fits[0](e)) {
				return true
			}
		}
		if over {
			w.t.Fatalf("the command has ended without the event %s: %+v, %s", name, w.all(), w.talk.String())
		}
		return false
	})
	return e
}

// over reports whether the command has ended.
func (w *wrapper) over() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// has reports whether there was an event.
func (w *wrapper) has(name string) bool {
	for _, e := range w.all() {
		if e.Event == name {
			return true
		}
	}
	return false
}

// until is the last deadline that was told.
func (w *wrapper) until() (at time.Time) {
	for _, e := range w.all() {
		if e.Until != nil && (e.Event == eventAcquired || e.Event == string(supervise.Extended)) {
			at = *e.Until
		}
	}
	return at
}

// code waits for the end of the command, and returns its exit code.
func (w *wrapper) code() int {
	w.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patient.Guard):
		w.t.Fatalf("the command has not ended in %v: %+v", patient.Guard, w.all())
	}
	if !w.cmd.ProcessState.Exited() {
		w.t.Logf("%q: %v: %s", w.cmd.Args[1:], w.cmd.ProcessState, w.talk.String())
	}
	return w.cmd.ProcessState.ExitCode()
}

// ends waits for the end of the command, which has to have a code.
func (w *wrapper) ends(want int) {
	w.t.Helper()
	if code := w.code(); code != want {
		w.t.Errorf("%q ended with %d, want %d: %s", w.cmd.Args[1:], code, want, w.talk.String())
	}
}

// file returns what the program has written to a file, once there is a line in it.
func (w *wrapper) file(name string) (line string) {
	w.t.Helper()
	patient.Until(w.t, "the program has written "+name, func() (ok bool) {
		over := w.over()
		text, _ := os.ReadFile(filepath.Join(w.folder, name)) //nolint:gosec // the test's own
		if line, ok = strings.CutSuffix(string(text), "\n"); !ok && over {
			w.t.Fatalf("the program has not written %s: %+v, %s", name, w.all(), w.talk.String())
		}
		return ok
	})
	return line
}

func (w *wrapper) pid(name string) int {
	w.t.Helper()
	pid, err := strconv.Atoi(w.file(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return pid
}

func (w *wrapper) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// touch makes a file that the program waits for.
func (w *wrapper) touch(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, name), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// exists reports whether the program has written a file.
func (w *wrapper) exists(name string) bool {
	_, err := os.Stat(filepath.Join(w.folder, name))
	return !errors.Is(err, os.ErrNotExist)
}

// state is the letter by which the kernel says how a process is; X: there is none.
func state(pid int) byte {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return (rest + "X")[0]
}

// runs reports whether a process can still do anything.
func runs(pid int) bool { return state(pid) != 'Z' && state(pid) != 'X' }

// gone waits until processes have ended, and is an error if one has not by then.
func gone(t testing.TB, by time.Time, pids map[string]int) (err error) {
	t.Helper()
	for what, pid := range pids {
		patient.Until(t, what+" has ended, or its time is over", func() bool { return !runs(pid) || time.Now().After(by) })
		if runs(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			err = fmt.Errorf("%s still runs", what)
		}
	}
	return err
}
