package main

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script is its SHA-1
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A mutant is the library without one of its mechanisms.
type mutant struct {
	name   string // what it does wrong, in a sentence
	file   string // below the root
	edits  []edit
	suites []suite // whose tests have to find it; by default those of redlock
}

// An edit puts new in the place of old, which stands in the file exactly once.
type edit struct{ old, new string }

// tests returns the suites that have to find the mutant.
func (m *mutant) tests() []suite {
	if m.suites == nil {
		return []suite{{pkg: "./redlock"}}
	}
	return m.suites
}

// apply returns the file's text with the edits made.
func (m *mutant) apply(text string) (string, error) {
	for _, e := range m.edits {
		switch count := strings.Count(text, e.old); {
		case count != 1:
			return "", fmt.Errorf("%s has this text %d times, want it once:\n%s", m.file, count, e.old)
		case e.new == e.old:
			return "", fmt.Errorf("%s: this edit changes nothing:\n%s", m.file, e.old)
		}
		text = strings.Replace(text, e.old, e.new, 1)
	}
	return text, nil
}

// digests is where the names of the scripts stand that nodes know them by.
const digests = "internal/scripts/scripts.go"

// files returns the files that the mutant changes, with their new texts. A script that is
// changed gets the name of its new text, as if somebody had mistaken it for right.
func (m *mutant) files(root string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file)) //nolint:gosec // it is in the table
	if err != nil {
		return nil, err
	}
	changed, err := m.apply(string(text))
	if err != nil {
		return nil, err
	}
	files := map[string]string{m.file: changed}
	if filepath.Ext(m.file) == ".lua" {
		names, err := os.ReadFile(filepath.Join(root, digests)) //nolint:gosec // it is in the repository
		if err != nil {
			return nil, err
		}
		named := mutant{file: digests, edits: []edit{{digest(string(text)), digest(changed)}}}
		if files[digests], err = named.apply(string(names)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func digest(script string) string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// overlay writes the changed files to dir, and returns the file that tells the compiler
// which files they stand for.
func (m *mutant) overlay(root, dir string) (string, error) {
	files, err := m.files(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range files {
		copied := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = copied
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}
