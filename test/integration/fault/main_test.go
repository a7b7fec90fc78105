package main

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/quorumlock/quorumlock/internal/leak"
)

// TestMain is also the worker of its own tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leak.Main(m)
}
