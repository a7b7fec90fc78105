package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// comparison runs the bench of another commit and this one by turns, and compares them. A
// round is one run of each, so that whatever else the machine does meets both alike.
type comparison struct {
	commit string
	least  float64 // the share of the other commit's cycles below which a figure is worse
	rounds int
	args   []string // of every run
}

// run builds both benches, lets them take turns, and prints the ratios. Its error names
// the figures that are worse.
func (c *comparison) run(ctx context.Context, out io.Writer) (err error) {
	work, err := os.MkdirTemp("", "quorumlock-against-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	tree := filepath.Join(work, "tree")
	if err := command(ctx, "git", "worktree", "add", "--quiet", "--detach", tree, c.commit); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), "git", "worktree", "remove", "--force", tree))
	}()
	folders := [2]string{filepath.Join(tree, "test", "bench"), "."}
	var sides [2]Report
	for i, folder := range folders {
		if err := command(ctx, "go", "-C", folder, "build", "-o", filepath.Join(work, "bench"+strconv.Itoa(i)), "."); err != nil {
			return err
		}
	}
	for round := range c.rounds {
		for turn := range sides {
			i := (round + turn) % len(sides)
			results := filepath.Join(work, "results"+strconv.Itoa(i))
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, c.rounds, [...]string{c.commit, "this tree"}[i])
			if err := command(ctx, filepath.Join(work, "bench"+strconv.Itoa(i)), append(slices.Clone(c.args), "-rounds", "1", "-out", results)...); err != nil {
				return err
			}
			report, err := readReport(filepath.Join(results, "bench.json"))
			if err != nil {
				return err
			}
			sides[i].merge(report)
		}
	}
	return c.compare(out, &sides[0], &sides[1])
}

// command runs a program, and shows what it says only if it fails.
func command(ctx context.Context, name string, args ...string) error {
	said, err := exec.CommandContext(ctx, name, args...).CombinedOutput() //nolint:gosec // git, go, and what go has built
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said)
	}
	return nil
}

// merge adds the rounds of another report.
func (r *Report) merge(other *Report) {
	for _, table := range other.Tables {
		if r.Table(table.Name) == nil {
			r.Tables = append(r.Tables, Table{Name: table.Name})
		}
		for _, row := range table.Rows {
			for metric, values := range row.Rounds {
				for _, value := range values {
					r.Table(table.Name).Add(row.Key, map[string]float64{metric: value})
				}
			}
		}
	}
}

// compare prints, for each row that both have, the medians of this tree's metrics and, in
// parentheses, of their ratios to the other commit's. Its error names the rows whose cycles
// are worse.
func (c *comparison) compare(out io.Writer, other, this *Report) error {
	var text strings.Builder
	fmt.Fprintf(&text, "This tree beside %s: medians over %d rounds; in parentheses the median of the rounds' ratios.\n", c.commit, c.rounds)
	var worse []string
	for _, k := range cases {
		table, before := this.Table(k.Name), other.Table(k.Name)
		if table == nil || before == nil {
			continue
		}
		fmt.Fprintf(&text, "\n\n%s: %s\n", k.Name, k.About)
		table.text(&text, k.Columns, func(column Column, row *Row) string {
			shown := column.show(row)
			if share := ratio(column.Metric, row, before.Row(row.Key)); !math.IsNaN(share) {
				shown += fmt.Sprintf(" (%.3f)", share)
			}
			return shown
		})
		for _, row := range table.Rows {
			if share := ratio("cycles", row, before.Row(row.Key)); share < c.least {
				worse = append(worse, fmt.Sprintf("%s, %s, %s: %.3f", k.Name, row.Contender, row.title(), share))
			}
		}
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return err
	}
	if len(worse) > 0 {
		return fmt.Errorf("below %.2f of the cycles of %s:\n\t%s", c.least, c.commit, strings.Join(worse, "\n\t"))
	}
	return nil
}

// passOn are the flags of a run that each of the two is given.
func (o *options) passOn() []string {
	args := []string{"-contenders", o.contenders, "-duration", o.bench.Duration.Round(time.Millisecond).String(), "-goroutines", strconv.Itoa(o.bench.Goroutines)}
	if o.only != "" {
		args = append(args, "-only", o.only)
	}
	if o.contenders == "" {
		args[1] = "^redlock" // peers do not change
	}
	return args
}
