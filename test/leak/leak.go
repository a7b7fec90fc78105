// Package leak finds goroutines that outlive the tests of a package. It is for TestMain, and
// for this repository only:
//
//	func TestMain(m *testing.M) { leak.Main(m) }
package leak

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Lasting goroutine may outlive the tests.
type Lasting struct {
	Function string // it is on its stack, as the stack shows it
	Reason   string
}

// always are those of Go itself.
var always = []Lasting{
	{"os/signal.loop", "the first signal.Notify starts it, and nothing ends it"},
	{"runtime.ensureSigM", "likewise"},
	{"internal/fuzz.", "a fuzzer ends with the process"},
}

// Main runs the tests, and ends the process: with a failure if one of them has failed, or
// if goroutines are left that are not among the lasting.
func Main(m *testing.M, lasting ...Lasting) { os.Exit(Check(m.Run(), lasting...)) }

// Check is for a TestMain that has more to do at its end. It returns the code of the tests,
// or 1 if that is 0 and goroutines are left, whose stacks it prints.
func Check(code int, lasting ...Lasting) int { return check(code, patience, lasting) }

func check(code int, within time.Duration, lasting []Lasting) int {
	if code != 0 {
		return code // a test that has failed may have left anything behind
	}
	found := left(within, lasting)
	if len(found) == 0 {
		return 0
	}
	fmt.Fprintf(os.Stderr, "goroutines outlived the tests (%d):\n\n%s\n", len(found), strings.Join(found, "\n\n"))
	return 1
}

// patience is how long goroutines get that are about to end. Clients wait some seconds for
// a connection that they have given up.
const patience = time.Minute

// left returns the stacks of the goroutines that are left when the time has passed, without
// the caller's own and those that are lasting.
func left(within time.Duration, lasting []Lasting) []string {
	lasting = slices.Concat(always, lasting)
	ticker := time.NewTicker(10 * time.Millisecond) // nothing says when a goroutine has gone
	defer ticker.Stop()
	for end := time.Now().Add(within); ; <-ticker.C {
		found := slices.DeleteFunc(stacks(), func(stack string) bool {
			return slices.ContainsFunc(lasting, func(l Lasting) bool { return strings.Contains(stack, l.Function) })
		})
		if len(found) == 0 || !time.Now().Before(end) {
			return found
		}
	}
}

// stacks returns those of all goroutines but the caller's own, which comes first.
func stacks() []string {
	for buf := make([]byte, 1<<16); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return strings.Split(strings.TrimSpace(string(buf[:n])), "\n\n")[1:]
		}
	}
}
