package main

import (
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
)

// The cases get through with one contender of ours and one peer, and their report can
// be written, read and drawn.
func TestCases(t *testing.T) {
	if _, err := server.Find(); errors.Is(err, server.ErrNoServer) && os.Getenv("QUORUMLOCK_REQUIRE") == "" {
		t.Skip(err)
	}
	bench := &Bench{
		Rounds: 1, Duration: 10 * time.Millisecond, Goroutines: 16, Quick: true, Log: log.New(io.Discard, "", 0),
		Contenders: []Contender{find("redlock", "redigo", ""), find("redsync", "redigo", failFast)},
	}
	site, err := startSite()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := site.Close(); err != nil {
			t.Errorf("closing the nodes: %v", err)
		}
	}()
	bench.Site = site
	some := []Case{throughput, faults, leftovers, outage} // the others differ in numbers alone
	report, err := measure(t.Context(), bench, some)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range some {
		for _, contender := range bench.Contenders {
			row := rowOf(report.Table(c.Name), contender)
			if row == nil && c.Name == leftovers.Name && !contender.ours() {
				continue // not where it must be quick
			}
			if row == nil {
				t.Errorf("%s has no row of %s", c.Name, contender.Name())
				continue
			}
			for _, column := range c.Columns {
				if len(row.Rounds[column.Metric]) == 0 {
					t.Errorf("%s: %s has no %q", c.Name, contender.Name(), column.Metric)
				}
			}
		}
	}

	folder := t.TempDir()
	if err := errors.Join(report.write(filepath.Join(folder, "bench.json")), drawPicture(folder)); err != nil {
		t.Fatal(err)
	}
	text := report.text()
	for _, want := range []string{"redlock redigo", "redsync redigo fail-fast", "16 goroutines", "floor"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q", want)
		}
	}
}

func rowOf(t *Table, c Contender) *Row {
	for _, row := range t.Rows {
		if row.Contender == c.Name() {
			return row
		}
	}
	return nil
}
