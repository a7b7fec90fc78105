// Package trial runs a test's schedule in several processes, which write what they do into one file.
package trial

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

const (
	nodesOf = "QUORUMLOCK_TRIAL_NODES"
	fileOf  = "QUORUMLOCK_TRIAL_FILE"
)

// Child reports whether this process is one of a trial's.
func Child() bool { return os.Getenv(nodesOf) != "" }

// Nodes are those of the trial.
func Nodes() []driver.Node { return Over(strings.Split(os.Getenv(nodesOf), ",")...) }

// Over are the nodes at these addresses.
func Over(addrs ...string) (nodes []driver.Node) {
	for _, addr := range addrs {
		nodes = append(nodes, driver.Node{Name: addr, Driver: resp.NewClient("trial", func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		})})
	}
	return nodes
}

// Say writes that this process begins or ends something.
func Say(what string) {
	file, err := os.OpenFile(os.Getenv(fileOf), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the test's own
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid(), what)
		_ = file.Close()
	}
	if err != nil {
		panic(err)
	}
}

// Work is a job of some milliseconds, which says when it begins and ends.
func Work() {
	Say("begins")
	time.Sleep(5 * time.Millisecond)
	Say("ends")
}

// A Line says what a process did.
type Line struct {
	PID  int
	What string
}

// A Trial is several processes that run one test.
type Trial struct {
	t         *testing.T
	file      string
	processes map[int]*os.Process
}

// Start runs the test by its name in three processes, over three servers, until the test ends.
func Start(t *testing.T) *Trial {
	t.Helper()
	const three = 3
	var addrs []string
	for range three {
		addrs = append(addrs, redisserver.Start(t).Addr)
	}
	tr := &Trial{t: t, file: filepath.Join(t.TempDir(), "said"), processes: make(map[int]*os.Process)}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range three {
		cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$") //nolint:gosec // this test again
		cmd.Env = append(os.Environ(), nodesOf+"="+strings.Join(addrs, ","), fileOf+"="+tr.file)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tr.processes[cmd.Process.Pid] = cmd.Process
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	return tr
}

// Lines returns what was said so far.
func (tr *Trial) Lines() (lines []Line) {
	text, err := os.ReadFile(tr.file)
	if err != nil && !os.IsNotExist(err) {
		tr.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		pid, what, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		number, err := strconv.Atoi(pid)
		if err != nil {
			tr.t.Fatalf("a line %q", line)
		}
		lines = append(lines, Line{number, what})
	}
	return lines
}

// OneIsKilled kills the process that is at work, once one is, and waits until another one has worked.
func (tr *Trial) OneIsKilled() (killed int) {
	tr.t.Helper()
	patient.Until(tr.t, "a process is at work, and killed", func() bool {
		lines := tr.Lines()
		if len(lines) == 0 || lines[len(lines)-1].What != "begins" {
			return false
		}
		killed = lines[len(lines)-1].PID
		return tr.processes[killed].Kill() == nil
	})
	begun := len(tr.Lines())
	patient.Until(tr.t, "another process goes on", func() bool {
		return slices.ContainsFunc(tr.Lines()[begun:], func(l Line) bool { return l.PID != killed && l.What == "ends" })
	})
	return killed
}

// HandsOver fails the test if work began while other work went on, but for that of the process that [Trial.OneIsKilled].
func (tr *Trial) HandsOver() {
	tr.t.Helper()
	killed, at := tr.OneIsKilled(), 0
	for _, line := range tr.Lines() {
		switch line.What {
		case "begins":
			if at != 0 && at != killed && at != line.PID { // a scheduler may run a job beside itself
				tr.t.Errorf("process %d begins while %d is at work", line.PID, at)
			}
			at = line.PID
		case "ends":
			if at == line.PID {
				at = 0
			}
		}
	}
}
