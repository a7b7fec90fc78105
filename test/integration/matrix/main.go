// Command matrix runs the behaviour suite over processes of each server that
// test/tools/servers has, one after the other, and prints what came out. It is run in
// the folder of package integration:
//
//	go run ./matrix [-race] [NAME...]
//
// The exit code is 1 if a test failed, if a server ran none, or if one cannot be had.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	race := flag.Bool("race", false, "with the race detector")
	flag.Parse()
	if err := run(context.Background(), *race, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, race bool, names []string) error {
	var list bytes.Buffer
	servers := exec.CommandContext(ctx, "../tools/servers", names...) //nolint:gosec // the names are the user's own
	servers.Stdout, servers.Stderr = &list, os.Stderr
	missing := servers.Run()
	if missing != nil {
		missing = fmt.Errorf("not every server is here (test/tools/servers: %w)", missing)
	}

	work, err := os.MkdirTemp("", "quorumlock-matrix-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := compile(ctx, work, race); err != nil {
		return err
	}

	var (
		results []*result
		failed  error
	)
	for lines := bufio.NewScanner(&list); lines.Scan(); {
		var name, version, program string
		if _, err := fmt.Sscan(lines.Text(), &name, &version, &program); err != nil {
			return fmt.Errorf("test/tools/servers says %q: %w", lines.Text(), err)
		}
		fmt.Printf("%s: %s\n", name, program)
		r, err := suite(ctx, name, program, work)
		if err != nil {
			return err
		}
		results = append(results, r)
		if err := r.verdict(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(results) == 0 {
		return errors.Join(missing, errors.New("there is no server to run on"))
	}
	fmt.Println()
	return errors.Join(table(os.Stdout, results), missing, failed)
}

// packages are those whose tests start servers, as folders.
var packages = []string{".", "./server"}

// compile builds the packages' tests, so that all servers get the same.
func compile(ctx context.Context, work string, race bool) error {
	args := []string{"test", "-c", "-o", work + "/"}
	if race {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, packages...)...) //nolint:gosec // no part is from outside
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return build.Run()
}

// suite runs the tests on one server, as go test -json does.
func suite(ctx context.Context, name, program, work string) (*result, error) {
	began := time.Now()
	r := newResult(name)
	for _, dir := range packages {
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		binary := filepath.Join(work, filepath.Base(path)+".test")
		test := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", filepath.Base(path), //nolint:gosec // no part is from outside
			binary, "-test.v=test2json", "-test.timeout=20m", "-test.paniconexit0")
		test.Dir = path
		test.Env = append(os.Environ(), "QUORUMLOCK_SERVER="+program, "QUORUMLOCK_ONLY=processes", "QUORUMLOCK_REQUIRE=processes")
		test.Stderr = os.Stderr
		var events bytes.Buffer
		test.Stdout = &events
		failed := test.Run()
		if err := r.read(&events); err != nil {
			return nil, fmt.Errorf("go test on %s: %w", name, errors.Join(failed, err))
		}
		if failed != nil && r.failed == 0 {
			return nil, fmt.Errorf("go test on %s: %w", name, failed)
		}
	}
	r.took = time.Since(began)
	return r, nil
}

// table prints a line for each server, and below it why tests were skipped.
func table(to io.Writer, results []*result) error {
	var lines, skips strings.Builder
	lines.WriteString("server\treports\tpassed\tfailed\tskipped\tseconds\n")
	for _, r := range results {
		fmt.Fprintf(&lines, "%s\t%s\t%d\t%d\t%d\t%.0f\n", r.name, r.reports, r.passed, r.failed, len(r.skipped), r.took.Seconds())
		for _, skip := range r.skipped {
			fmt.Fprintf(&skips, "%s skipped %s\n", r.name, skip)
		}
	}
	columns := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(columns, lines.String()); err != nil {
		return err
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(to, skips.String())
	return err
}
