package redlocktest

import (
	"os"
	"os/exec"
	"sync"
	"testing"
)

// A program that is being started has, until it runs, all that is open here.
func TestANodeStartsAgainWhileProgramsAreStarted(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
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
