package server

import (
	"errors"
	"os"
	"os/exec"

	"github.com/quorumlock/quorumlock/test/redisserver"
)

// ErrNoServer says that no server is installed.
var ErrNoServer = redisserver.ErrNone

// Find returns the server that processes run.
func Find() (string, error) { return redisserver.Lookup() }

// A Setup says how to run a server.
type Setup struct {
	// Program is the server: one in PATH, or a path. The default is what Find finds.
	Program string
	// Args come behind the usual ones: no persistence, IPv4 and, where there is one,
	// IPv6.
	Args []string
	// Clock gives the server a wall clock of its own, for StepClock.
	Clock bool
	// Disk keeps note of what the server brings to the disk, for PowerCut.
	Disk bool
}

// Launch starts an ordinary server with args.
func Launch(args ...string) (*Process, error) { return Setup{Args: args}.Launch() }

// Launch starts a server on a free port of loopback, in a folder of its own. It
// returns when the server answers.
func (s Setup) Launch() (*Process, error) {
	if s.Program == "" {
		program, err := Find()
		if err != nil {
			return nil, err
		}
		s.Program = program
	}
	port, err := redisserver.FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quorumlock-server-")
	if err != nil {
		return nil, err
	}
	p := &Process{setup: s, port: port, dir: dir}
	if err = os.Mkdir(p.data(), 0o700); err == nil {
		err = p.Start()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Lacks returns what the machine lacks to run processes with clocks and disks of their own.
func Lacks() error {
	if _, err := Find(); err != nil {
		return err
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		return ErrNoCompiler
	}
	return nil
}

// Missing reports whether an error of Launch or Lacks says that the machine lacks what processes
// need, and not that anything went wrong.
func Missing(err error) bool {
	return errors.Is(err, ErrNoServer) || errors.Is(err, ErrNoCompiler)
}
