package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// Process is a server that runs as a process of this machine, on loopback.
type Process struct {
	binary string
	args   []string
	port   int
	dir    string

	cmd  *exec.Cmd
	gone <-chan struct{} // closed when the process has ended
}

var _ Node = (*Process)(nil)

// ErrNoServer says that no server is installed.
var ErrNoServer = errors.New("no redis-server or valkey-server in PATH (install redis-server)")

// Find returns the server that processes run: the one that QUORUMLOCK_SERVER names,
// else redis-server, else valkey-server.
func Find() (string, error) {
	if name := os.Getenv("QUORUMLOCK_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("QUORUMLOCK_SERVER: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

// Launch starts a server on a free port of loopback, in a folder of its own, with
// args behind its usual ones: no persistence, IPv4 and, where there is one, IPv6.
// It returns when the server answers.
func Launch(args ...string) (*Process, error) {
	binary, err := Find()
	if err != nil {
		return nil, err
	}
	// Between the search for a port and its use somebody else may take it.
	const tries = 3
	for try := 1; ; try++ {
		p := &Process{binary: binary, args: args}
		if p.port, err = FreePort(); err != nil {
			return nil, err
		}
		if p.dir, err = os.MkdirTemp("", "quorumlock-server-"); err != nil {
			return nil, err
		}
		if err = p.Start(); err == nil {
			return p, nil
		}
		if err = errors.Join(err, p.Close()); try == tries {
			return nil, err
		}
	}
}

// Addr is where clients reach it.
func (p *Process) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Port is the port of Addr: the server also listens on it at [::1].
func (p *Process) Port() int { return p.port }

// Start starts the server again where it was killed.
func (p *Process) Start() error {
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	args := append([]string{
		"--port", strconv.Itoa(p.port), "--bind", "127.0.0.1", "-::1",
		"--dir", p.dir, "--save", "", "--appendonly", "no",
	}, p.args...)
	cmd := exec.Command(p.binary, args...) //nolint:gosec,noctx // the installed server; Kill ends it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "LC_ALL=C") // some refuse to start under a locale that they cannot find
	cmd.SysProcAttr = attributes()
	alive, died := context.WithCancel(context.Background())
	p.cmd, p.gone = cmd, alive.Done()

	started := make(chan error)
	go func() {
		// The server dies with the thread that started it (see attributes), so that
		// thread does nothing else until then.
		runtime.LockOSThread()
		defer died()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := Await(alive, p.Addr()); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w; its log: %s", filepath.Base(p.binary), err, text)
	}
	return nil
}

// Kill ends the server with SIGKILL, paused or not.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.gone
	return nil
}

// Pause stops the server with SIGSTOP.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Continue lets it go on with SIGCONT.
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

// Close kills the server and removes its folder.
func (p *Process) Close() error {
	var err error
	if p.cmd != nil && p.cmd.Process != nil {
		if err = p.Kill(); errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *Process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("server at %s: %v: %w", p.Addr(), sig, err)
	}
	return nil
}
