// Package redisserver runs servers for the tests of the drivers: real ones, and one in memory.
package redisserver

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const missing = "redis-server is not here: install redis-server (Debian: apt-get install redis-server)"

// Find returns the installed redis-server. Where there is none it skips the test,
// unless QUORUMLOCK_REQUIRE has "processes".
func Find(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
		return path
	case strings.Contains(os.Getenv("QUORUMLOCK_REQUIRE"), "processes"):
		t.Fatalf("%s, which QUORUMLOCK_REQUIRE asks for", missing)
	}
	t.Skip(missing)
	return ""
}
