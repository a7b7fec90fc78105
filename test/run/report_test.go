package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// hearing has a report hear events, as go test -json puts them, of tests that run.
func hearing(events ...string) string {
	var said strings.Builder
	r := newReport(&said, 2)
	r.built()
	for _, e := range events {
		r.hear([]byte(e+"\n"), "")
	}
	r.end()
	return said.String()
}

func TestWhatWasNotRunIsListedWithItsReason(t *testing.T) {
	said := hearing(
		`{"Action":"start","Package":"github.com/quorumlock/quorumlock/a"}`,
		`{"Action":"output","Package":"github.com/quorumlock/quorumlock/a","Test":"TestX","Output":"    x_test.go:7: seed 3\n"}`,
		`{"Action":"output","Package":"github.com/quorumlock/quorumlock/a","Test":"TestX","Output":"    x_test.go:8: no server (install it)\n"}`,
		`{"Action":"output","Package":"github.com/quorumlock/quorumlock/a","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}`,
		`{"Action":"skip","Package":"github.com/quorumlock/quorumlock/a","Test":"TestX"}`,
		`{"Action":"pass","Package":"github.com/quorumlock/quorumlock/a","Test":"TestY"}`,
		`{"Action":"pass","Package":"github.com/quorumlock/quorumlock/a"}`,
	)
	const want = "1 tests passed, and 1 were NOT RUN\nrun: NOT RUN: 1 of a: no server (install it)\n"
	if !strings.HasSuffix(said, want) {
		t.Errorf("a package with a test that was not run is reported as\n%s\nwant at its end\n%s", said, want)
	}
}

func TestOnlyWhatFailsIsShown(t *testing.T) {
	said := hearing(
		`{"Action":"start","Package":"a"}`,
		`{"Action":"output","Package":"a","Test":"TestGood","Output":"good\n"}`,
		`{"Action":"pass","Package":"a","Test":"TestGood"}`,
		`{"Action":"output","Package":"a","Test":"TestBad","Output":"bad\n"}`,
		`{"Action":"fail","Package":"a","Test":"TestBad"}`,
		`{"Action":"output","Package":"a","Test":"TestBroken","Output":"panic: oh\n"}`,
		`{"Action":"output","Package":"a","Output":"FAIL\ta\t1s\n"}`,
		`{"Action":"fail","Package":"a"}`,
		`{"Action":"build-output","ImportPath":"b","Output":"no such thing\n"}`,
	)
	for _, want := range []string{"bad\n", "panic: oh\n", "FAIL\ta\t1s\n", "no such thing\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in what is said of a package that fails:\n%s", want, said)
		}
	}
	if strings.Contains(said, "good") {
		t.Errorf("what a test said that passed is shown:\n%s", said)
	}
}

func TestEveryIntervalTellsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		r := newReport(&said, 2)
		stop := r.beat(20 * time.Second)
		time.Sleep(21 * time.Second)
		r.built()
		r.hear([]byte(`{"Action":"start","Package":"a"}`), "")
		time.Sleep(20 * time.Second)
		stop()
		const want = "run: 20s: 0 of 2 packages are built\nrun: 21s: 0 packages are built\nrun: 40s: a (19s)\n"
		if said.String() != want {
			t.Errorf("it says\n%s\nwant\n%s", said.String(), want)
		}
	})
}
