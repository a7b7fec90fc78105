package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestUnderTheSemaphoreEachHasALicenceOfItsOwn(t *testing.T) {
	told := []string{"There are three licences, .*", "Each looks for a licence that is free, .*"}
	// In virtual time all have looked before the first of them takes it.
	told = append(told, "  worker . uses licence 1, which was free")
	told = append(told, slices.Repeat([]string{"  worker . uses licence 1, which is in use by . already"}, 7)...)
	told = append(told, "So a licence that was in use was taken 7 times.", "Each waits for one of three permits, .*")
	told = append(told, slices.Repeat([]string{"  worker . uses licence ., which was free"}, 8)...)
	told = append(told, "So a licence that was in use was taken 0 times.")
	if _, err := programtest.Tells(t, 0, run, told...); err != nil {
		t.Errorf("run = %v", err)
	}
}

func TestNoJobIsDoneWithoutAQuorum(t *testing.T) {
	if _, err := programtest.Tells(t, 3, run, "Each waits for one of three permits, .*"); !errors.Is(err, redlock.ErrNoQuorum) {
		t.Errorf("run = %v, want no quorum", err)
	}
}
