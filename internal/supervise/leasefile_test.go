//go:build linux

package supervise

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Behind su, in cron and in containers the variable may name what is not there, or is another user's.
func TestALeaseFileIsMadeInTheTemporaryFolderWhereItsOwnCannotBeUsed(t *testing.T) {
	temporary, occupied := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temporary)
	for _, own := range []string{"", filepath.Join(temporary, "nowhere"), occupied, "relative"} {
		t.Setenv("XDG_RUNTIME_DIR", own)
		file, err := NewLeaseFile([]string{"k"}, 0, "")
		if err != nil || !strings.HasPrefix(file.Name(), temporary) {
			t.Errorf("with XDG_RUNTIME_DIR=%q the lease file is %q (%v), want it below %s", own, file.Name(), err, temporary)
		}
		file.Remove()
	}
	t.Setenv("TMPDIR", occupied)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(temporary, "nowhere"))
	if _, err := NewLeaseFile([]string{"k"}, 0, ""); err == nil || !strings.Contains(err.Error(), "nowhere") || !strings.Contains(err.Error(), occupied) {
		t.Errorf("where neither folder can be used: %v, want an error that names both", err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("%v (%v) is left of lease files", left, err)
	}
}

// newLeaseFile makes the lease file of a lock on k, in a folder of the test's own.
func newLeaseFile(t *testing.T, fence int64) *LeaseFile {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	file, err := NewLeaseFile([]string{"k"}, fence, "")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheLeaseFileSaysWhatIsLeft(t *testing.T) {
	file := newLeaseFile(t, 7)
	l := holdFor(long)
	p, folder := script(t, `trap '' TERM; echo > $D/ready; while :; do sleep 0.01; done`)
	events := new(record)
	over := begin(t, l, p, Options{TTL: roomy, Grace: 200 * time.Millisecond, File: file, Events: func(e Event) {
		events.add(e)
		if left, err := Left(file.Name()); e.What == Stopping && (left != 0 || err != nil) {
			t.Errorf("when the program is asked to end %v (%v) are left, want 0", left, err)
		}
	}})
	awaitFile(t, folder, "ready")
	info, err := os.Stat(file.Name())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the lease file: %v, %v, want mode 0600", info, err)
	}
	if left, err := Left(file.Name()); err != nil || left <= 0 || left > long {
		t.Errorf("Left = %v, %v, want at most %v", left, err, long)
	}
	if pid := HolderOf([]string{"k"}, file.Name()); pid != os.Getpid() {
		t.Errorf("HolderOf(k) = %d, want this process %d", pid, os.Getpid())
	}
	if pid := HolderOf([]string{"other"}, file.Name()); pid != 0 {
		t.Errorf("HolderOf(other) = %d, want nobody", pid)
	}
	l.extend(2 * long)
	events.await(t, over, Extended, 1)
	if left, err := Left(file.Name()); err != nil || left < long {
		t.Errorf("after a renewal Left = %v, %v, want more than the first %v", left, err, long)
	}
	l.extend(-1)
	await(t, over)
	if _, err := os.Stat(filepath.Dir(file.Name())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lease file's folder is left behind: %v", err)
	}
}

// full makes the next write of a lease file meet a full disk.
func full(t *testing.T, file *LeaseFile) {
	t.Helper()
	if err := os.Symlink("/dev/full", file.Name()+fresh); err != nil {
		t.Fatal(err)
	}
}

func TestAFullDiskRunsNothingAndLeavesNothing(t *testing.T) {
	file := newLeaseFile(t, 0)
	full(t, file)
	p, folder := script(t, `echo > $D/ran`)
	got, err := Run(t.Context(), holdFor(long), p, Options{TTL: long, File: file})
	var at *os.PathError
	if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &at) || got.Started {
		t.Errorf("Run = %+v, %v, want ENOSPC with the file, and nothing started", got, err)
	}
	for what, name := range map[string]string{"the program's file": filepath.Join(folder, "ran"), "the lease file's folder": filepath.Dir(file.Name())} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there (%v)", what, err)
		}
	}
}

// The lease goes on, and the file says less than is left.
func TestADiskThatFillsUpIsToldAndEndsNothing(t *testing.T) {
	file := newLeaseFile(t, 0)
	l := holdFor(long)
	p, folder := script(t, `echo > $D/ready; while [ ! -e $D/go ]; do sleep 0.01; done; exit 4`)
	unwritten := make(chan error, 10)
	over := begin(t, l, p, Options{TTL: roomy, Grace: 200 * time.Millisecond, File: file, Events: func(e Event) {
		if e.What == Unwritten {
			unwritten <- e.Err
		}
	}})
	awaitFile(t, folder, "ready")
	full(t, file)
	l.extend(2 * long)
	if err := <-unwritten; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the renewal was told %v, want ENOSPC", err)
	}
	if left, err := Left(file.Name()); err != nil || left <= 0 || left > long {
		t.Errorf("Left = %v, %v, want what was left before the renewal", left, err)
	}
	letGo(t, folder)
	if got := await(t, over); got.err != nil || got.Code != 4 || got.Lost {
		t.Errorf("Run = %+v, %v, want code 4", got.Result, got.err)
	}
}

func TestAHolderIsFoundThroughTheLocksBetween(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	outer, err := NewLeaseFile([]string{"a"}, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := NewLeaseFile([]string{"b", "c"}, 0, outer.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(outer.write(now()+time.Hour), inner.write(now()+time.Hour)); err != nil {
		t.Fatal(err)
	}
	for key, held := range map[string]bool{"a": true, "b": true, "c": true, "d": false} {
		if pid := HolderOf([]string{"e", key}, inner.Name()); (pid != 0) != held {
			t.Errorf("HolderOf(e, %s) = %d: want a holder of a, b and c, and none of d", key, pid)
		}
	}
	if err := outer.write(now() - 1); err != nil || HolderOf([]string{"a"}, inner.Name()) != 0 {
		t.Errorf("a lease that is over has a holder (%v)", err)
	}
	if err := os.WriteFile(inner.Name(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Left(inner.Name()); err == nil {
		t.Error("a lease file that says nothing is no error")
	}
}

func TestReportReachesTheInitSystem(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := errors.Join(Report(name, "READY=1"), Report("", "lost")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, _, err := conn.ReadFrom(buf); err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("the init system was told %q, %v, want READY=1", buf[:n], err)
	}
	if Report(filepath.Join(t.TempDir(), "none"), "READY=1") == nil {
		t.Error("no error of a socket that is not there")
	}
}
