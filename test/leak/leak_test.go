package leak

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// leaking makes this binary a package whose test leaves a goroutine behind.
const leaking = "QUORUMLOCK_LEAK"

func TestMain(m *testing.M) {
	if os.Getenv(leaking) != "" {
		start(make(chan struct{}))
		os.Exit(check(0, 0, nil))
	}
	Main(m)
}

// start starts a goroutine that ends when it is told to.
func start(ends <-chan struct{}) {
	begun := make(chan struct{})
	go func() {
		close(begun)
		forgotten(ends)
	}()
	<-begun
}

func forgotten(ends <-chan struct{}) { <-ends }

func TestAGoroutineThatOutlivesTheTestsIsFoundAndShown(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^$") //nolint:gosec // it is this binary
	child.Env = append(os.Environ(), leaking+"=1")
	out, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "goroutines outlived the tests (1)") || !strings.Contains(string(out), "leak.forgotten") {
		t.Errorf("tests that leave a goroutine behind = %v, and print\n%s\nwant a failure, and its stack", err, out)
	}
}

func TestWhatEndsInTimeAndWhatMayLastAreNoLeaks(t *testing.T) {
	ends := make(chan struct{})
	start(ends)
	lasting := Lasting{Function: "leak.forgotten", Reason: "this test says so"}
	runner := Lasting{Function: "testing.(*M).Run", Reason: "it runs this test"}
	if found := left(time.Minute, []Lasting{lasting, runner}); len(found) > 0 {
		t.Errorf("left are, besides what may last:\n%s", strings.Join(found, "\n\n"))
	}
	if found := left(0, []Lasting{runner}); len(found) != 1 || !strings.Contains(found[0], "forgotten") {
		t.Errorf("left at once are:\n%s\nwant the one that has not ended", strings.Join(found, "\n\n"))
	}
	time.AfterFunc(50*time.Millisecond, func() { close(ends) })
	if found := left(time.Minute, []Lasting{runner}); len(found) > 0 {
		t.Errorf("left after its end are:\n%s", strings.Join(found, "\n\n"))
	}
}

func TestATestThatHasFailedHasFailed(t *testing.T) {
	if code := Check(7); code != 7 {
		t.Errorf("Check(7) = %d, want 7", code)
	}
}
