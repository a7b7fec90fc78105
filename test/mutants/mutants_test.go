package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheTableFitsTheLibrary(t *testing.T) {
	l, err := quorumlock(t.Context())
	must(t, err)
	names := make(map[string]bool)
	for _, m := range table() {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		files, err := m.files(l)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		for name, text := range files {
			if text == l.files[name] {
				t.Errorf("%s changes nothing in %s", m.name, name)
			}
			if filepath.Ext(name) != ".go" {
				continue
			}
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
				t.Errorf("%s: it is no Go any more: %v", m.name, err)
			}
		}
	}
}

// Nodes know a script by its digest, and the compiled digest would be that of the right one.
func TestAScriptThatIsChangedChangesItsDigest(t *testing.T) {
	l, err := quorumlock(t.Context())
	must(t, err)
	m := wrong("", in("line.lua", replace("period = 2 * period", "break"))) // take.lua has it in front
	files, err := m.files(l)
	must(t, err)
	if want := digest(l.files["internal/scripts/keep.lua"] + files["internal/scripts/line.lua"] + l.files["internal/scripts/take.lua"]); !strings.Contains(files[listOfScripts], want) {
		t.Errorf("the changed script's digest %s is not beside those of the others:\n%s", want, files[listOfScripts])
	}
}

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

// examine examines mutants of the small library, and returns what is said of them.
func examine(t *testing.T, test string, timeout time.Duration, changes ...change) (killed bool, said string, err error) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module library\n\ngo 1.25.0\n", "library.go": itsText, "library_test.go": test} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	t.Setenv("GOWORK", "off")
	var mutants []mutant
	for i, c := range changes {
		mutants = append(mutants, wrong(fmt.Sprint(i), in("Sum", c), suite{pkg: "."}))
	}
	lib, err := load(root, ".")
	must(t, err)
	var out strings.Builder
	l := laboratory{library: lib, timeout: timeout, out: &out}
	killed, err = l.examine(t.Context(), mutants)
	return killed, out.String(), err
}

func TestOnlyAFailedTestKills(t *testing.T) {
	killed, said, err := examine(t, itsTest, time.Minute,
		replace("+=", "-="), replace("of[i]", "of[i+1]"), never("i < len(of)"), returns("6"),
		drop("sum += off[i]"), replace("+= of[i]", "+= off[i]"))
	if killed || err != nil {
		t.Errorf("killed = %v, %v, want false: one has survived, and two are broken", killed, err)
	}
	for _, want := range []string{
		"killed    0  by TestTheSumIsThatOfAll: library_test.go:7: the sum is -6, want 6",
		"killed    1  by TestTheSumIsThatOfAll: panic: runtime error: index out of range",
		"killed    2  by TestTheSumIsThatOfAll: library_test.go:7: the sum is 0, want 6",
		"SURVIVED  3",
		"BROKEN    4: library.Sum in library.go: it has this 0 times",
		"BROKEN    5: it does not compile",
		"6 mutants: 3 killed, 1 survived, 2 broken",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

// The tests are processes, so the time is that of the wall clock.
func TestAHangIsAKill(t *testing.T) {
	killed, said, err := examine(t, itsTest, 2*time.Second, replace("i++", "i += 0"))
	if !killed || err != nil || !strings.Contains(said, "panic: test timed out") {
		t.Errorf("killed = %v, %v, want it, because its test hung:\n%s", killed, err, said)
	}
}

func TestTheTestsHaveToPassWithoutAMutant(t *testing.T) {
	for name, test := range map[string]string{
		"fail":            strings.Replace(itsTest, "got != 6", "got != 7", 1),
		"do not compile":  strings.Replace(itsTest, "Sum(1", "Some(1", 1),
		"are not there":   "package library\n",
		"end without one": itsTest + "\nfunc init() { panic(\"no\") }\n",
	} {
		if killed, said, err := examine(t, test, time.Minute, replace("+=", "-=")); killed || err == nil || strings.Contains(said, "killed") {
			t.Errorf("the tests %s: killed = %v, %v, want an error:\n%s", name, killed, err, said)
		}
	}
	if killed, said, err := examine(t, itsTest, time.Minute); killed || err == nil {
		t.Errorf("without a mutant: killed = %v, %v, want an error:\n%s", killed, err, said)
	}
}

func TestWhatEndsWithoutAFailureIsNoKill(t *testing.T) {
	if failed, err := verdict("FAIL\tlibrary\t0.1s\nFAIL\n", errors.New("exit status 1")); failed != "" || err == nil {
		t.Errorf("tests that end without a failure: %q, %v, want an error", failed, err)
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
