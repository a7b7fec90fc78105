package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A suite is the tests of a package.
type suite struct {
	pkg string   // its folder, as ./redlock
	run string   // a regexp of the tests' names; by default all but examples
	env []string // besides that of this program
}

// errBuild says that the tests could not be built, which shows nothing.
var errBuild = errors.New("it does not compile")

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
	cmd.Env = append(os.Environ(), s.env...)
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
