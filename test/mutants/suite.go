package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A suite is the tests of a package.
type suite struct {
	pkg string // its folder, as ./redlock
	run string // a regexp of the tests' names; by default all but examples
}

// errBuild says that the tests could not be built, which shows nothing.
var errBuild = errors.New("it does not compile")

func (s *suite) name() string { return s.pkg + " " + s.run }

// build compiles the suite's tests. Overlay may be "".
func (s *suite) build(ctx context.Context, root, overlay, binary string) error {
	args := []string{"test", "-c", "-o", binary}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, s.pkg)...) //nolint:gosec // no part is from outside
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: go test -c %s: %w\n%s", errBuild, s.pkg, err, said)
	}
	return nil
}

// grace is how long a process may go on after its own time-out.
const grace = 30 * time.Second

// test runs the suite's tests up to the first that fails, and writes to log what they print.
func (s *suite) test(ctx context.Context, root, binary string, timeout time.Duration, log io.Writer) (*verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout+grace)
	defer cancel()
	pattern := s.run
	if pattern == "" {
		pattern = "^(Test|Fuzz)"
	}
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.failfast", "-test.run="+pattern, "-test.timeout="+timeout.String()) //nolint:gosec // it was built here
	cmd.Dir = filepath.Join(root, s.pkg)
	// A test that is ended leaves its containers.
	cmd.Env = append(os.Environ(), "QUORUMLOCK_ONLY=embedded,processes", "QUORUMLOCK_REQUIRE=processes")
	cmd.WaitDelay = grace // what a mutant has left running may hold the output
	from, to := io.Pipe()
	cmd.Stdout, cmd.Stderr = to, to
	ended := make(chan error, 1)
	go func() {
		err := cmd.Run()
		_ = to.Close()
		ended <- err
	}()
	v := listen(io.TeeReader(from, log))
	if v.failed() {
		cancel() // whatever else fails, or hangs
	}
	_, _ = io.Copy(io.Discard, from)
	err := <-ended
	switch {
	case v.failed():
		return v, nil
	case err != nil:
		return nil, fmt.Errorf("the tests of %s ended with %w, and no test has failed", s.pkg, err)
	case v.passed == 0:
		return nil, fmt.Errorf("%s has no test that matches %q and runs here", s.pkg, pattern)
	}
	return v, nil
}

// A verdict is what came of a run of tests.
type verdict struct {
	test      string // the first that failed; "": none did
	complaint string // the first line of what it says
	hung      bool   // it was ended by the time-out
	passed    int    // so many before
}

func (v *verdict) failed() bool { return v.test != "" }

// listen reads what tests print with -test.v, up to the first failure and what it says.
func listen(output io.Reader) *verdict {
	v := &verdict{}
	running, said := "", make(map[string]string) // by test, its first line
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch verb, rest, _ := strings.Cut(line, " "); {
		case verb == "===": // RUN, NAME, CONT or PAUSE, and a name
			running = line[strings.LastIndexByte(line, ' ')+1:]
		case strings.HasPrefix(line, "--- PASS: "):
			v.passed++
		case strings.HasPrefix(line, "--- FAIL: "):
			v.test, _, _ = strings.Cut(line[len("--- FAIL: "):], " ")
			if v.complaint = said[v.test]; v.complaint != "" {
				return v
			}
			// It has panicked, which comes next.
		case verb == "panic:", verb == "fatal" && strings.HasPrefix(rest, "error:"):
			if v.test == "" {
				v.test, _, _ = strings.Cut(running, "/")
			}
			v.complaint, v.hung = line, strings.HasPrefix(rest, "test timed out")
			return v
		case strings.Contains(line, "_test.go:"):
			name, _, _ := strings.Cut(running, "/")
			if said[name] == "" {
				said[name] = strings.TrimSpace(line)
			}
		}
	}
	return v
}
