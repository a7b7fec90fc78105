package main

import (
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestUnderTheLockAllReadAtOnceAndNothingIsTorn(t *testing.T) {
	_, err := programtest.Tells(t, 0, run,
		"Eight services .*",
		`Without a lock they read \d{3} times, up to 8 at once: [1-9]\d+ times they got a new address with an old password\.`,
		`Under a lock that they share, and that the operator has alone, they read \d{3} times, up to 8 at once: 0 times they got a new address with an old password\.`)
	if err != nil {
		t.Errorf("run = %v", err)
	}
}
