package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a server that runs as a process of this machine, on loopback.
type Process struct {
	setup Setup
	port  int
	dir   string
	ahead time.Duration // of the machine's clock

	cmd  *exec.Cmd
	gone <-chan struct{} // closed when the process, and each that it forked, has ended
}

var _ Node = (*Process)(nil)

// Addr is where clients reach it.
func (p *Process) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Port is the port of Addr: the server also listens on it at [::1].
func (p *Process) Port() int { return p.port }

// Start starts the server again where it was killed.
func (p *Process) Start() error {
	log, err := os.Create(p.logFile())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	args := append([]string{
		"--port", strconv.Itoa(p.port), "--bind", "127.0.0.1", "-::1",
		"--dir", p.data(), "--save", "", "--appendonly", "no",
	}, p.setup.Args...)
	cmd := exec.Command(p.setup.Program, args...) //nolint:gosec,noctx // the installed server; Kill ends it
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.Env, err = p.environment(); err != nil {
		return err
	}
	cmd.SysProcAttr = attributes()
	ended, end, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.ExtraFiles = []*os.File{end} // which a fork that writes the data has, too
	alive, died := context.WithCancel(context.Background())
	p.cmd, p.gone = cmd, alive.Done()

	started := make(chan error)
	go func() {
		// The server dies with the thread that started it (see attributes), so that
		// thread does nothing else until then.
		runtime.LockOSThread()
		defer died()
		err := cmd.Start()
		_ = end.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
		_, _ = io.Copy(io.Discard, ended)
		_ = ended.Close()
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := Await(alive, p.Addr()); err != nil {
		return fmt.Errorf("%s: %w; its log: %s", filepath.Base(p.setup.Program), err, p.log())
	}
	return nil
}

// Kill ends the server with SIGKILL, paused or not, and what it has forked to write its data: that
// would go on.
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

func (p *Process) logFile() string { return filepath.Join(p.dir, "log") }

// log is what the server has said since it was started.
func (p *Process) log() []byte {
	text, _ := os.ReadFile(p.logFile()) // none is none
	return text
}

// data is the server's own folder in p.dir.
func (p *Process) data() string { return filepath.Join(p.dir, "data") }

// environment is the test's own, and what puts shims under the server.
func (p *Process) environment() ([]string, error) {
	env := append(os.Environ(), "LC_ALL=C") // some refuse to start under a locale that they cannot find
	var preload []string
	if p.setup.Clock {
		library, err := build("clock")
		if err != nil {
			return nil, err
		}
		preload, env = append(preload, library), append(env, "QUORUMLOCK_CLOCK="+p.clockFile())
		if err := p.setClock(); err != nil {
			return nil, err
		}
	}
	if p.setup.Disk {
		library, err := build("fsync")
		if err != nil {
			return nil, err
		}
		preload, env = append(preload, library), append(env, "QUORUMLOCK_FSYNCS="+p.fsyncsFile())
	}
	if preload != nil {
		env = append(env, "LD_PRELOAD="+strings.Join(preload, ":"))
	}
	return env, nil
}

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

// signal sends a signal to the server and to what it has forked.
func (p *Process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if err == nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig) // its process group: there may be nobody else, or nobody left
	}
	if errors.Is(err, os.ErrProcessDone) {
		<-p.gone
		return fmt.Errorf("server at %s: %v: %w, by itself (%v); its log: %s", p.Addr(), sig, err, p.cmd.ProcessState, p.log())
	}
	if err != nil {
		return fmt.Errorf("server at %s: %v: %w", p.Addr(), sig, err)
	}
	return nil
}
