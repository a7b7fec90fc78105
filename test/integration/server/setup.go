package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

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
	// Between the search for a port and its use somebody else may take it.
	const tries = 3
	for try := 1; ; try++ {
		p, err := s.launch()
		if err == nil || try == tries {
			return p, err
		}
	}
}

func (s Setup) launch() (*Process, error) {
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
