package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A small library with a test.
const (
	itsText = `package library

func Sum(of ...int) (sum int) {
	for i := 0; i < len(of); i++ {
		sum += of[i]
	}
	return sum
}
`
	itsTest = `package library

import "testing"

func TestTheSumIsThatOfAll(t *testing.T) {
	if got := Sum(1, 2, 3); got != 6 {
		t.Errorf("the sum is %d, want 6", got)
	}
}
`
)

// examine examines mutants of the library, and returns what is said of them.
func examine(t *testing.T, test string, timeout time.Duration, edits ...[2]string) (killed bool, said string, err error) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module library\n\ngo 1.25.0\n", "library.go": itsText, "library_test.go": test} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	var mutants []mutant
	for _, e := range edits {
		mutants = append(mutants, wrong(e[1], in("Sum", replace(e[0], e[1])), suite{pkg: "."}))
	}
	lib, err := load(t.Context(), root, ".")
	must(t, err)
	var out strings.Builder
	l := laboratory{library: lib, work: t.TempDir(), timeout: timeout, out: &out}
	killed, err = l.examine(t.Context(), mutants)
	if text, readErr := fs.ReadFile(os.DirFS(root), "library.go"); readErr != nil || string(text) != itsText {
		t.Errorf("the file itself was touched: %q, %v", text, readErr)
	}
	return killed, out.String(), err
}

// Or a slow machine would kill mutants.
func TestTestsThatAreSlowWithoutAMutantHaveNotHung(t *testing.T) {
	fast, slow := suite{pkg: "./fast"}, suite{pkg: "./slow"}
	l := laboratory{timeout: time.Minute, takes: map[string]time.Duration{fast.name(): time.Second, slow.name(): 50 * time.Second}}
	for _, tt := range []struct {
		suite
		want time.Duration
	}{{fast, time.Minute}, {slow, 200 * time.Second}, {suite{pkg: "./new"}, 10 * time.Minute}} {
		if got := l.limit(&tt.suite); got != tt.want {
			t.Errorf("the tests of %s may run for %v, want %v", tt.pkg, got, tt.want)
		}
	}
}

// What came of a run of all takes the place of what the page said of the last one.
func TestTheCountsGoIntoThePage(t *testing.T) {
	const text = "Without one of its mechanisms.\nA run of all %d killed %d.%s\n\n## Time\n"
	page := filepath.Join(t.TempDir(), "page.md")
	must(t, os.WriteFile(page, fmt.Appendf(nil, text, 529, 528, " The other one has a test."), 0o600))
	c := counts{killed: 530, survived: 1, broken: 2}
	must(t, c.record(page))
	got, err := os.ReadFile(page) //nolint:gosec // this test's own
	must(t, err)
	if want := fmt.Sprintf(text, 533, 530, ""); string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	must(t, os.WriteFile(page, []byte("nothing of it"), 0o600))
	if c.record(page) == nil {
		t.Error("counts went into a page that has no sentence for them")
	}
}

func TestOnlyAFailedTestKills(t *testing.T) {
	killed, said, err := examine(t, itsTest, time.Minute,
		[2]string{"sum += of[i]", "sum -= of[i]"},
		[2]string{"sum += of[i]", "sum += of[i+1]"},
		[2]string{"sum += of[i]", "sum = sum + of[i]"}, // the same
		[2]string{"sum += of[i]", "sum += off[i]"},
		[2]string{"product", "quotient"})
	if killed || err != nil {
		t.Errorf("killed = %v, %v, want false: one has survived, and two are broken", killed, err)
	}
	for _, want := range []string{
		"killed    sum -= of[i]  by TestTheSumIsThatOfAll: library_test.go:7: the sum is -6, want 6",
		"killed    sum += of[i+1]  by TestTheSumIsThatOfAll: panic: runtime error: index out of range",
		"SURVIVED  sum = sum + of[i]",
		"BROKEN    sum += off[i]: it does not compile",
		"BROKEN    quotient: library.Sum in library.go: it has this 0 times",
		"5 mutants: 2 killed, 1 survived, 2 broken",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

// The tests are processes, so the time is that of the wall clock.
func TestAHangIsAKill(t *testing.T) {
	killed, said, err := examine(t, itsTest, 2*time.Second, [2]string{"i++", "i += 0"}, [2]string{"i++", "i += 2"})
	if !killed || err != nil || !strings.Contains(said, "i += 0  by TestTheSumIsThatOfAll, which hung") {
		t.Errorf("killed = %v, %v, want both, the first because its test hung:\n%s", killed, err, said)
	}
}

func TestTheTestsHaveToPassWithoutAMutant(t *testing.T) {
	for name, test := range map[string]string{
		"fail":            strings.Replace(itsTest, "got != 6", "got != 7", 1),
		"do not compile":  strings.Replace(itsTest, "Sum(1", "Some(1", 1),
		"are not there":   "package library\n",
		"end without one": itsTest + "\nfunc TestMain(*testing.M) { panic(\"no\") }\n",
	} {
		killed, said, err := examine(t, test, time.Minute, [2]string{"sum +=", "sum -="})
		if killed || err == nil || strings.Contains(said, "killed") {
			t.Errorf("the tests %s: killed = %v, %v, want an error:\n%s", name, killed, err, said)
		}
	}
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	if killed, _, err := examine(t, itsTest, time.Minute); killed || err == nil {
		t.Errorf("without a mutant: killed = %v, %v, want an error", killed, err)
	}
}

func TestTheVerdictIsTheFirstFailureAndWhatItSays(t *testing.T) {
	for _, tt := range []struct {
		name, output string
		want         verdict
	}{
		{"all pass", "=== RUN   TestA\n    a_test.go:1: a log\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- PASS: TestB (0.00s)\nPASS\n", verdict{passed: 2}},
		{"nothing runs", "testing: warning: no tests to run\nPASS\n", verdict{}},
		{
			"a failure", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    b_test.go:2: one\n    b_test.go:3: two\n--- FAIL: TestB (0.00s)\n--- FAIL: TestC (0.00s)\n",
			verdict{test: "TestB", complaint: "b_test.go:2: one", passed: 1},
		},
		{
			"a part of a test", "=== RUN   TestA\n=== RUN   TestA/part\n    a_test.go:2: one\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/part (0.00s)\n",
			verdict{test: "TestA", complaint: "a_test.go:2: one"},
		},
		{"a panic in a test", "=== RUN   TestA\n--- FAIL: TestA (0.00s)\npanic: oops [recovered]\n", verdict{test: "TestA", complaint: "panic: oops [recovered]"}},
		{"a panic beside it", "=== RUN   TestA\npanic: oops\n\ngoroutine 7 [running]:\n", verdict{test: "TestA", complaint: "panic: oops"}},
		{"a deadlock", "=== RUN   TestA\nfatal error: all goroutines are asleep - deadlock!\n", verdict{test: "TestA", complaint: "fatal error: all goroutines are asleep - deadlock!"}},
		{
			"a hang", "=== RUN   TestA\npanic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n",
			verdict{test: "TestA", complaint: "panic: test timed out after 1s", hung: true},
		},
	} {
		if got := *listen(strings.NewReader(tt.output)); got != tt.want {
			t.Errorf("%s: the verdict is %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
