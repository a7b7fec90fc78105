package server

import (
	"errors"
	"os"
	"os/exec"
	"strings"
)

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

// Required reports whether QUORUMLOCK_REQUIRE names this kind of nodes: then it is a
// failure if they are missing.
func Required(kind string) bool {
	return strings.Contains(os.Getenv("QUORUMLOCK_REQUIRE"), kind)
}
