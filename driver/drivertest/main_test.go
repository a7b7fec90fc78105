package drivertest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain fails the tests if a goroutine outlives them: those of the server, or of
// a case that has given up on its driver.
func TestMain(m *testing.M) {
	code := m.Run()
	left := leftovers()
	tick := time.NewTicker(10 * time.Millisecond)
	for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = leftovers() {
		<-tick.C
	}
	if code == 0 && len(left) > 0 {
		fmt.Printf("goroutines outlived the tests:\n%s\n", strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// leftovers returns the goroutines of this package, by their stacks or labels, apart
// from TestMain's own. The testing package may have others, such as a fuzzer's.
func leftovers() []string {
	var left []string
	for entry := range strings.SplitSeq(profile(), "\n\n") {
		if strings.Contains(entry, "drivertest") && !strings.Contains(entry, "TestMain") {
			left = append(left, entry)
		}
	}
	return left
}
