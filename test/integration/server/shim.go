package server

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrNoCompiler says that no server can run with a clock or a disk of its own.
var ErrNoCompiler = errors.New("no gcc in PATH (install gcc)")

// shims are small libraries in C that the linker puts between a server and its C
// library.
//
//go:embed shim/*.c
var shims embed.FS

// build returns the library of a shim. It is built once a version, into the user's
// cache.
func build(shim string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", ErrNoCompiler
	}
	source, err := shims.ReadFile("shim/" + shim + ".c")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "quorumlock", "shims")
	library := filepath.Join(cache, fmt.Sprintf("%s-%.6x.so", shim, sha256.Sum256(source)))
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	from, to := filepath.Join(work, shim+".c"), filepath.Join(work, shim+".so")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return "", err
	}
	said, err := exec.Command(gcc, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", to, from).CombinedOutput() //nolint:gosec,noctx // our own source; ends soon
	if err != nil {
		return "", fmt.Errorf("building the %s shim: %w: %s", shim, err, said)
	}
	return library, os.Rename(to, library) // others may be building it, too
}

// StepClock moves a running server's wall clock ahead by d, or back if d is negative,
// as when somebody sets a machine's time, and returns when the server has noticed. Steps
// add up, and outlast the server's restarts. It needs Setup.Clock.
func (p *Process) StepClock(d time.Duration) error {
	if !p.setup.Clock {
		return fmt.Errorf("server at %s has the machine's clock: Setup.Clock is not set", p.Addr())
	}
	before, err := p.wallClock()
	if err != nil {
		return err
	}
	p.ahead += d
	if err := p.setClock(); err != nil {
		return err
	}
	// Some, like Valkey 9.1, go by the monotonic clock, and look at the wall clock once
	// in a while.
	for deadline := time.Now().Add(answerTimeout); ; time.Sleep(time.Millisecond) {
		now, err := p.wallClock()
		if err != nil {
			return err
		}
		if (now - before - d).Abs() <= d.Abs()/2 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("server at %s has gone from %v ahead to %v, want a step of %v", p.Addr(), before, now, d)
		}
	}
}

// wallClock returns how far the server's wall clock is ahead of ours.
func (p *Process) wallClock() (time.Duration, error) {
	answer, err := p.Do("TIME")
	if err != nil {
		return 0, err
	}
	var seconds, micros int64
	if _, err := fmt.Sscan(answer, &seconds, &micros); err != nil {
		return 0, fmt.Errorf("server at %s: TIME is %q: %w", p.Addr(), answer, err)
	}
	return time.Until(time.Unix(seconds, micros*int64(time.Microsecond))), nil
}

func (p *Process) clockFile() string { return filepath.Join(p.dir, "clock") }

// setClock writes in place: the server has mapped the file, and one that shrinks or
// is replaced would end it, or change nothing.
func (p *Process) setClock() error {
	file, err := os.OpenFile(p.clockFile(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	ahead := binary.NativeEndian.AppendUint64(nil, uint64(p.ahead)) //nolint:gosec // the shim reads it as signed
	_, err = file.Write(ahead)
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}

// HoldDisk lets no sync begin until the power is cut, as when others keep the disk
// busy. It needs Setup.Disk.
func (p *Process) HoldDisk() error {
	if !p.setup.Disk {
		return fmt.Errorf("server at %s has the machine's disk: Setup.Disk is not set", p.Addr())
	}
	return os.WriteFile(p.heldFile(), nil, 0o600)
}

// PowerCut ends the server as when its machine loses power: what it wrote is gone,
// unless an fsync had brought it to the disk. Start then finds the rest. Only files'
// contents can be lost; that a file was made or renamed is never. It needs Setup.Disk.
func (p *Process) PowerCut() error {
	if !p.setup.Disk {
		return fmt.Errorf("server at %s has the machine's disk: Setup.Disk is not set", p.Addr())
	}
	if err := p.Kill(); err != nil {
		return err
	}
	if err := os.Remove(p.heldFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	safe, err := p.synced()
	if err != nil {
		return err
	}
	return filepath.WalkDir(p.data(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		length := safe[info.Sys().(*syscall.Stat_t).Ino]
		if info.Size() <= length {
			return nil
		}
		return os.Truncate(path, length)
	})
}

func (p *Process) fsyncsFile() string { return filepath.Join(p.dir, "fsyncs") }

func (p *Process) heldFile() string { return p.fsyncsFile() + ".held" }

// synced returns how much of each file, by its inode, is on the disk.
func (p *Process) synced() (map[uint64]int64, error) {
	safe := map[uint64]int64{}
	notes, err := os.Open(p.fsyncsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return safe, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = notes.Close() }()
	lines := bufio.NewScanner(notes)
	for lines.Scan() {
		var (
			inode  uint64
			length int64
		)
		if _, err := fmt.Fscan(strings.NewReader(lines.Text()), &inode, &length); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", p.fsyncsFile(), lines.Text(), err)
		}
		safe[inode] = length
	}
	return safe, lines.Err()
}
