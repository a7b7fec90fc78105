package rueidis_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails when a goroutine of the adapter or of rueidis is left at the end:
// every test closes what it has made.
func TestMain(m *testing.M) {
	code := m.Run()
	const patience = 12 * time.Second // rueidis's own time-outs end within that
	ended := time.Now()
	for tick := time.Tick(20 * time.Millisecond); code == 0 && leaked() != ""; <-tick {
		if time.Since(ended) > patience {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", leaked())
			code = 1
		}
	}
	os.Exit(code)
}

// leaked returns the stacks of the goroutines that should have ended.
func leaked() string {
	buf := make([]byte, 1<<20)
	var left []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "/rueidis.") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
