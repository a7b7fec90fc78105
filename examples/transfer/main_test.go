package main

import (
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestTheSumStaysUnderLocksOnBothAccounts(t *testing.T) {
	_, err := programtest.Tells(t, 0, run,
		"Three accounts have 3000 together.*",
		"  without locks: the accounts have 3200, .*", // all have read before anybody writes, each time
		"  with the locks on both accounts, taken as one: the accounts have 3000",
		"10 are moved from each account to the next, .*",
		"  with one lock after the other: each transfer had one, .*",
		`    deadlock: (the transfer from account ., who holds "account .", waits for "account ."[;:]\n    ){3}acquire .*`,
		"  the accounts have 3000",
		"  with the locks on both accounts, taken as one: the accounts have 3000, and nobody gave up")
	if err != nil {
		t.Errorf("run = %v", err)
	}
}
