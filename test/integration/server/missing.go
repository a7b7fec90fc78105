package server

import (
	"errors"
	"os"
	"strings"
)

// Missing reports whether an error of Launch says that the machine lacks what processes
// need, and not that anything went wrong.
func Missing(err error) bool {
	return errors.Is(err, ErrNoServer) || errors.Is(err, ErrNoCompiler)
}

// Required reports whether QUORUMLOCK_REQUIRE names this kind of nodes: then it is a
// failure if they are missing.
func Required(kind string) bool {
	return strings.Contains(os.Getenv("QUORUMLOCK_REQUIRE"), kind)
}
