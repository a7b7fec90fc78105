package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

func TestMain(m *testing.M) {
	code := 1
	if err := startKinds(); err != nil {
		fmt.Println("integration:", err)
	} else {
		code = m.Run()
	}
	for _, k := range kinds {
		if err := k.close(); err != nil {
			fmt.Printf("integration: closing %s: %v\n", k.name, err)
			code = 1
		}
	}
	fmt.Println(verdict())
	os.Exit(leak.Check(code))
}

// startKinds starts the nodes of every kind that can run here. The error is one of a
// kind that should be able to, or that must.
func startKinds() error {
	var starting sync.WaitGroup
	for _, k := range kinds {
		starting.Go(func() { k.start(context.Background()) })
	}
	starting.Wait()
	for _, k := range kinds {
		if k.broken != nil {
			return fmt.Errorf("%s: %w", k.name, k.broken)
		}
		if k.missing != nil && redisserver.Required(k.name) {
			return fmt.Errorf("%s are required (QUORUMLOCK_REQUIRE)", k.name)
		}
	}
	if _, err := powerServer(); err != nil && redisserver.Required("power") {
		return fmt.Errorf("power cuts are required (QUORUMLOCK_REQUIRE): %w", err)
	}
	return nil
}

// verdict says in one line which kinds have run, and why the others have not.
func verdict() string {
	var ran, missing []string
	for _, k := range kinds {
		if k.missing == nil {
			ran = append(ran, k.title)
		} else {
			missing = append(missing, fmt.Sprintf("%s: NOT RUN: %v", k.name, k.missing))
		}
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		missing = append(missing, fmt.Sprintf("the tests of servers' clocks and disks: NOT RUN: %v", server.ErrNoCompiler))
	}
	if _, err := powerServer(); err != nil {
		missing = append(missing, fmt.Sprintf("power cuts: NOT RUN: %v", err))
	}
	return strings.Join(append([]string{"integration: " + strings.Join(ran, ", ") + " ran"}, missing...), "; ")
}
