package main

import (
	"errors"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/leak"
)

// The proxies, the crowds and the services are processes that run this program again: here, the test.
func TestMain(m *testing.M) {
	serve()
	leak.Main(m)
}

// The cases get through with ours and a peer, and have all figures. No lock has two holders.
func TestCases(t *testing.T) {
	for name, tt := range map[string]struct {
		contenders []Contender
		cases      []Case
	}{
		"tries": {[]Contender{find("redlock", "redigo", ""), find("redsync", "redigo", failFast)}, []Case{throughput, openLoop, faults, outage, safety}},
		"waits": {[]Contender{find("redlock", "redigo", ""), find("redsync", "go-redis", polling)}, []Case{handover, contended, permits, sets, beside, parked, fleet}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Contenders, b.Waiters = tt.contenders, tt.contenders
			report := measured(t, b, tt.cases...)
			for _, c := range tt.cases {
				if c.Name != beside.Name { // in so short a window one beside eight may have no turn
					complete(t, report.Table(c.Name), c, tt.contenders)
				}
			}
			for _, want := range []string{tt.cases[0].About, "redlock redigo", "floor"} {
				if text := report.text(); !strings.Contains(text, want) {
					t.Errorf("the text does not say %q: %s", want, text)
				}
			}
			for _, row := range ourRows(report.Table(contended.Name)) {
				if n := row.Median("most"); n > 1 {
					t.Errorf("%s had %v holders at once, want 1", row.Contender, n)
				}
			}
		})
	}
}

// In each trouble of the case far a quorum goes on, and all nodes are well behind it.
func TestTroubles(t *testing.T) {
	b, table, some := newBench(t), new(Table), Span{Cycles: 20, Most: time.Minute}
	for _, trouble := range unlike(2) {
		trouble.proxied = true
		h := hardship{Trouble: trouble, callers: 1, keys: 1, well: some, ill: some, closed: true}
		if err := attempt(func() { b.endure(t.Context(), table, redlocks()[0], h) }); err != nil {
			t.Fatal(err)
		}
		if row := table.Rows[len(table.Rows)-1]; row.Median("cycles") == 0 || row.Median("healthy cycles") == 0 {
			t.Errorf("with %s the figures are %v, want cycles", trouble.Name, row.Rounds)
		}
	}
	if err := b.Site.proxies.last(nodes, "delay", 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err := server.Do(b.Site.proxies.addrs[0], "PING")
	if took := time.Since(start); err != nil || took < 20*time.Millisecond { //nolint:forbidigo // a slow machine only adds
		t.Errorf("a node that is 10 ms away each way answers after %v (%v)", took, err)
	}
}

// A fleet of which one process fails leaves none of the others behind.
func TestAFleetThatFailsIsClosed(t *testing.T) {
	b := newBench(t)
	var all children
	if err := attempt(func() { b.startFleet(&all, Contender{}, service{Processes: 3}) }); err == nil || len(all) != 3 {
		t.Errorf("a fleet of a library that nobody knows began with %d processes (%v), want an error and 3 to close", len(all), err)
	}
	all.close()
	for i, child := range all {
		if child.command.ProcessState == nil {
			t.Errorf("process %d of the fleet was left behind", i)
		}
	}
}

func measured(t *testing.T, b *Bench, some ...Case) (report *Report) {
	t.Helper()
	if err := attempt(func() { report = b.measure(t.Context(), some) }); err != nil {
		t.Fatal(err)
	}
	return report
}

// newBench is a quick one, on servers that end with the test.
func newBench(t *testing.T) *Bench {
	t.Helper()
	if _, err := server.Find(); errors.Is(err, server.ErrNoServer) && os.Getenv("QUORUMLOCK_REQUIRE") == "" {
		t.Skip(err)
	}
	site := startSite()
	t.Cleanup(site.Close)
	return &Bench{Rounds: 1, Duration: 10 * time.Millisecond, Keys: 1000, Goroutines: 16, Quick: true, Site: site, Log: log.New(io.Discard, "", 0)}
}

// complete checks that the table has all metrics of the case, of our contender and, where others take
// part, of the peer.
func complete(t *testing.T, table *Table, c Case, contenders []Contender) {
	t.Helper()
	for _, contender := range contenders {
		var got []string
		for _, row := range table.Rows {
			if strings.HasPrefix(row.Contender, contender.Library+" ") {
				got = slices.AppendSeq(got, maps.Keys(row.Rounds))
			}
		}
		for _, metric := range c.Columns {
			if !slices.Contains(got, metric) && (len(got) > 0 || contender.ours()) {
				t.Errorf("%s: %s has no %q", c.Name, contender.Library, metric)
			}
		}
	}
}
