//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

func TestTheResultIsTheProgramsOwn(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Result
	}{
		{"exit 0", Result{Started: true}},
		{"exit 7", Result{Started: true, Code: 7}},
		{"kill -USR1 $$", Result{Started: true, Code: 138, Signal: syscall.SIGUSR1}},
	} {
		p, _ := script(t, tt.text)
		got, err := Run(t.Context(), holdFor(long), p, Options{TTL: long})
		if err != nil || got != tt.want {
			t.Errorf("Run of %q = %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
}

func TestWhatCannotBeExecutedIsAnError(t *testing.T) {
	folder := t.TempDir()
	bad := filepath.Join(folder, "bad")
	if err := os.WriteFile(bad, []byte("no program\n"), 0o700); err != nil { //nolint:gosec // it has to be one
		t.Fatal(err)
	}
	for path, want := range map[string]error{bad: syscall.ENOEXEC, filepath.Join(folder, "none"): syscall.ENOENT} {
		got, err := Run(t.Context(), holdFor(long), Program{Path: path, Args: []string{"x"}}, Options{TTL: long})
		var at *os.PathError
		if !errors.Is(err, want) || !errors.As(err, &at) || got.Started {
			t.Errorf("Run of %s = %+v, %v, want %v with the path, and nothing started", path, got, err, want)
		}
	}
}

func TestTheTTLHasRoomForTheGrace(t *testing.T) {
	for _, tt := range []struct {
		ttl, grace time.Duration
		ok         bool
	}{
		{30 * time.Second, 5 * time.Second, true},
		{30 * time.Second, 15*time.Second - 300*time.Millisecond, true},
		{30 * time.Second, 15 * time.Second, false},
		{time.Second, 450 * time.Millisecond, true},
		{time.Second, 451 * time.Millisecond, false},
		{90 * time.Millisecond, 0, false},
		{time.Second, -1, false},
	} {
		err := Fits(tt.ttl, tt.grace)
		if (err == nil) != tt.ok || (err != nil && !errors.Is(err, redlock.ErrOption)) {
			t.Errorf("Fits(%v, %v) = %v, want an ErrOption: %v", tt.ttl, tt.grace, err, !tt.ok)
		}
	}
	p, folder := script(t, "echo > $D/ran")
	_, err := Run(t.Context(), holdFor(long), p, Options{TTL: time.Second, Grace: time.Second})
	if _, ran := os.Stat(filepath.Join(folder, "ran")); !errors.Is(err, redlock.ErrOption) || ran == nil {
		t.Errorf("Run with a grace as long as the TTL: %v, ran: %v, want ErrOption and nothing run", err, ran == nil)
	}
}

func TestAProgramIsOnlyReportedToOnDemand(t *testing.T) {
	l := holdFor(500 * time.Millisecond)
	p, folder := script(t, `while [ ! -e $D/go ]; do sleep 0.01; done; exit 4`)
	events := new(record)
	over := begin(t, l, p, Options{TTL: 500 * time.Millisecond, Grace: 100 * time.Millisecond, Report: true, Events: events.add})
	events.await(t, over, Lost, 1)
	letGo(t, folder)
	if got := await(t, over); got.err != nil || !got.Lost || got.Code != 4 {
		t.Errorf("Run = %+v, %v, want code 4 and it lost", got.Result, got.err)
	}
}

func TestTheEndOfTheContextStopsTheProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, folder := script(t, `trap '' TERM; echo > $D/ready; while :; do sleep 0.01; done`)
	go func() {
		defer cancel()
		awaitFile(t, folder, "ready")
	}()
	start := time.Now()
	got, err := Run(ctx, holdFor(long), p, Options{TTL: long, Grace: 200 * time.Millisecond})
	if after := time.Since(start); err != nil || got.Lost || got.Signal != syscall.SIGKILL || after < 200*time.Millisecond { //nolint:forbidigo // a slow machine only adds
		t.Errorf("Run = %+v, %v after %v, want it killed after the grace, and not lost", got, err, after)
	}
}

func TestASignalBeforeTheStartKeepsItFromStarting(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGWINCH // says nothing
	signals <- syscall.SIGINT
	p, folder := script(t, "echo > $D/ran")
	got, err := Run(t.Context(), holdFor(long), p, Options{TTL: long, Signals: signals})
	if want := (Result{Code: 130, Signal: syscall.SIGINT}); err != nil || got != want {
		t.Errorf("Run = %+v, %v, want %+v", got, err, want)
	}
	if _, err := os.Stat(filepath.Join(folder, "ran")); err == nil {
		t.Error("the program was started")
	}
}

func TestSignalsArePassedOnToTheGroup(t *testing.T) {
	signals := make(chan os.Signal, 1)
	p, folder := script(t, `trap 'echo > $D/usr1' USR1; trap 'exit 9' QUIT; echo > $D/ready; while :; do sleep 0.01; done`)
	over := begin(t, holdFor(long), p, Options{TTL: long, Signals: signals})
	awaitFile(t, folder, "ready")
	signals <- syscall.SIGUSR1
	awaitFile(t, folder, "usr1")
	signals <- syscall.SIGQUIT
	if got := await(t, over); got.err != nil || got.Code != 9 {
		t.Errorf("Run = %+v, %v, want code 9", got.Result, got.err)
	}
}

func TestAProgramHasTheDescriptorsAndSignalsOfItsCaller(t *testing.T) {
	folder := t.TempDir()
	file, err := os.Create(filepath.Join(folder, "five")) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	const fd = 23
	if err := syscall.Dup2(int(file.Fd()), fd); err != nil { // not close-on-exec
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	p := Program{Path: "/bin/bash", Args: []string{"bash", "-c", "echo hello >&23; echo $(ls /proc/self/fd) >&23; grep SigIgn /proc/self/status >&23"}}
	if _, err := Run(t.Context(), holdFor(long), p, Options{TTL: long}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	hello, rest, _ := strings.Cut(string(text), "\n")
	list, ignored, _ := strings.Cut(rest, "\n")
	if own := ignoredHere(t); hello != "hello" || strings.TrimSpace(ignored) != own {
		t.Errorf("the program says %q, want hello, its descriptors, and what this process ignores: %s", text, own)
	}
	for word := range strings.FieldsSeq(list) {
		number, err := strconv.Atoi(word)
		flags, closed := fcntl(uintptr(number), syscall.F_GETFD)
		// 3 is the folder that ls reads.
		if err != nil || (number > 3 && (closed != nil || flags&syscall.FD_CLOEXEC != 0)) {
			t.Errorf("the program has descriptor %s, which is not from its caller: %q", word, list)
		}
	}
}

func TestWhatIsInheritedIsReapedAndNothingElse(t *testing.T) {
	if err := adopt(); err != nil {
		t.Fatal(err)
	}
	defer Reap()()
	for i := range 5 {
		p, folder := script(t, "exit 7")
		text := `(sh -c 'echo $$ > $D/pid; while [ ! -e $D/go ]; do sleep 0.01; done' &)`
		if _, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", text}, &syscall.ProcAttr{Env: append(os.Environ(), "D="+folder)}); err != nil { //nolint:gosec // a script of this test
			t.Fatal(err)
		}
		orphan := awaitPid(t, folder, "pid")
		letGo(t, folder)
		if got, err := Run(t.Context(), holdFor(long), p, Options{TTL: long, Alone: true}); err != nil || got.Code != 7 {
			t.Errorf("round %d: Run = %+v, %v, want code 7", i, got, err)
		}
		patient.Until(t, fmt.Sprintf("the orphan of round %d is reaped", i), func() bool { return state(orphan) == "" })
	}
}

// Without a thread that it wants the Go runtime ends a process.
func TestAProcessThatMayStartNoThreadGoesOn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be a user that has nothing else to run")
	}
	self, err := os.Open(os.Args[0]) //nolint:gosec // this test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	process := exec.CommandContext(t.Context(), "/proc/self/fd/3", threadsName) // for that user may not look for it
	process.ExtraFiles = []*os.File{self}
	process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 29124, Gid: 29124}}
	if out, err := process.CombinedOutput(); err != nil || string(out) != "done" {
		t.Errorf("it has ended with %v: %.300s", err, out)
	}
}

// ignoredHere is the line of the signals that this process ignores: whoever has started it may
// have it ignore some that Go leaves as they are.
func ignoredHere(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "SigIgn:") {
			return strings.TrimSpace(line)
		}
	}
	t.Fatal("/proc/self/status has no line SigIgn")
	return ""
}
