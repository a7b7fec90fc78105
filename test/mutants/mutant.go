package main

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script is its SHA-1
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A mutant is the library without one of its mechanisms.
type mutant struct {
	name   string // what it does wrong, in a sentence
	edits  edits
	suites []suite // whose tests have to find it; see tests for the default
}

// wrong returns a mutant. It is found by the default suites if there are none.
func wrong(name string, edits edits, by ...suite) mutant { return mutant{name, edits, by} }

// Edits are what is done to declarations.
type edits []edit

// An edit changes one declaration.
type edit struct {
	name    string // as type.method or function, with a package in front where that is not enough; or a script's file
	changes []change
}

func in(name string, changes ...change) edits { return edits{}.in(name, changes...) }

func (e edits) in(name string, changes ...change) edits { return append(e, edit{name, changes}) }

// A change returns the source of a declaration without one of its mechanisms. What it looks for stands there exactly once.
type change func(source string) (string, error)

// replace puts another piece of source in the place of old.
func replace(old, other string) change {
	return func(source string) (string, error) {
		if n := strings.Count(source, old); n != 1 {
			return "", fmt.Errorf("it has this %d times, want it once: %s", n, old)
		}
		return strings.Replace(source, old, other, 1), nil
	}
}

// never makes a condition, or a part of one, false.
func never(condition string) change { return replace(condition, "(("+condition+") && false)") }

// always makes a condition, or a part of one, true.
func always(condition string) change { return replace(condition, "(("+condition+") || true)") }

// drop leaves out a statement. What the statement alone has used stays used.
func drop(statement string) change { return replace(statement, "if false { "+statement+" }") }

// returns makes a function do nothing else.
func returns(expr string) change {
	return func(source string) (string, error) {
		signature, _, ok := strings.Cut(source, " {")
		if !ok {
			return "", fmt.Errorf("it is no function: %s", source)
		}
		return signature + " { return " + expr + " }", nil
	}
}

// tests returns the suites that have to find the mutant: by default those of the packages
// that it changes, and then those of redlock, which are about all of them together.
func (m *mutant) tests(l *library) (suites []suite) {
	if m.suites != nil {
		return m.suites
	}
	all := suite{pkg: "./redlock"}
	for _, e := range m.edits {
		d, err := l.find(e.name)
		if err != nil {
			continue
		}
		s := suite{pkg: "./" + filepath.ToSlash(filepath.Dir(d.file))}
		has, _ := filepath.Glob(filepath.Join(l.root, s.pkg, "*_test.go"))
		if len(has) > 0 && s != all && !slices.Contains(suites, s) {
			suites = append(suites, s)
		}
	}
	return append(suites, all)
}

// files returns the files that the mutant changes, with their new texts. A script that is
// changed gets the name of its new text, as if somebody had mistaken it for right.
func (m *mutant) files(l *library) (map[string]string, error) {
	changed := make(map[*declaration]string)
	for _, e := range m.edits {
		d, err := l.find(e.name)
		if err != nil {
			return nil, err
		}
		text := cmp.Or(changed[d], l.files[d.file][d.from:d.to])
		for _, change := range e.changes {
			if text, err = change(text); err != nil {
				return nil, fmt.Errorf("%s in %s: %w", d.name, d.file, err)
			}
		}
		changed[d] = text
	}
	files := make(map[string]string)
	for i := len(l.decls) - 1; i >= 0; i-- { // from the end, so that offsets hold
		d := &l.decls[i]
		if text, ok := changed[d]; ok {
			file := cmp.Or(files[d.file], l.files[d.file])
			files[d.file] = file[:d.from] + text + file[d.to:]
		}
	}
	if slices.ContainsFunc(m.edits, func(e edit) bool { return strings.HasSuffix(e.name, ".lua") }) {
		l.rename(files)
	}
	return files, nil
}

const listOfScripts = "internal/scripts/scripts.go"

// rename lets the list of scripts know the changed ones by their digests. A script may be several
// files.
func (l *library) rename(files map[string]string) {
	list, sources := l.files[listOfScripts], make(map[string]string) // by the variables that have them
	for _, embed := range embedded.FindAllStringSubmatch(list, -1) {
		file := filepath.Join(filepath.Dir(listOfScripts), embed[1])
		sources[embed[2]] = cmp.Or(files[file], l.files[file])
	}
	files[listOfScripts] = listed.ReplaceAllStringFunc(list, func(entry string) string {
		parts, whole := listed.FindStringSubmatch(entry), ""
		for part := range strings.SplitSeq(parts[1], "+") {
			whole += sources[part]
		}
		return "list(" + parts[1] + `, "` + digest(whole) + `")`
	})
}

// How the list of scripts names their files, and their digests.
var (
	embedded = regexp.MustCompile(`//go:embed (\S+\.lua)\nvar (\w+) string`)
	listed   = regexp.MustCompile(`list\(([\w+]+), "[0-9a-f]{40}"\)`)
)

func digest(script string) string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// overlay writes the changed files to dir, and returns the file that tells the compiler
// which files they stand for.
func (m *mutant) overlay(l *library, dir string) (string, error) {
	files, err := m.files(l)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range files {
		copied := filepath.Join(dir, strconv.Itoa(len(replace))+filepath.Base(name))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(l.root, name)] = copied
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}
