package redlocktest

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// unshared listens at an address if nobody else has it: the kernel gives nobody a port of
// its choice that it would refuse here.
func unshared(t *testing.T, addr string) error {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
		})
		return errors.Join(failed, err)
	}}
	listener, err := config.Listen(t.Context(), "tcp", addr)
	if err != nil {
		return err
	}
	return listener.Close()
}

func TestAStoppedNodesPortIsKeptForIt(t *testing.T) {
	nodes := Start(t, 1)
	for range 2 {
		nodes[0].Stop()
		if err := unshared(t, nodes[0].Addr()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("somebody else listens at a stopped node's port: %v, want %v", err, syscall.EADDRINUSE)
		}
		if conn, err := net.Dial("tcp", nodes[0].Addr()); !errors.Is(err, syscall.ECONNREFUSED) { //nolint:noctx // returns at once
			t.Errorf("a connection to a stopped node: %v, %v, want %v", conn, err, syscall.ECONNREFUSED)
		}
		must(t, nodes[0].Start())
	}
	nodes.Close()
	if err := unshared(t, nodes[0].Addr()); err != nil {
		t.Errorf("after Close the port is not free: %v", err)
	}
}

// A program that is being started has, until it runs, all that is open here.
func TestANodeStartsAgainWhileProgramsAreStarted(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	nodes := Start(t, 1)
	var (
		starting sync.WaitGroup
		done     = make(chan struct{})
	)
	for range 4 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := exec.CommandContext(t.Context(), self, "-test.list=^$").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2000 {
		if err := nodes[0].RestartEmpty(); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	starting.Wait()
}
