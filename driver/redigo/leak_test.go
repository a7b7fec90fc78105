package redigo_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"testing"
	"time"
)

// TestMain fails if a goroutine of the package is left when all tests have ended.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leftovers(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left behind:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leftovers gives goroutines that are ending five seconds for it.
func leftovers() string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Second); ; <-tick.C {
		var stacks bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
		var left []byte
		for stack := range bytes.SplitSeq(stacks.Bytes(), []byte("\n\n")) {
			if bytes.Contains(stack, []byte("/driver/redigo.(*")) {
				left = append(append(left, stack...), "\n\n"...)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return string(left)
		}
	}
}
