package main

import (
	"strings"
	"testing"
)

func TestTheTableFitsTheLibrary(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range table() {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		if _, err := m.files("../.."); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestAnEditWantsItsTextExactlyOnce(t *testing.T) {
	for _, tt := range []struct {
		text, want, fails string
		edits             []edit
	}{
		{text: "a b c", edits: []edit{{"b", "x"}}, want: "a x c"},
		{text: "a b c", edits: []edit{{"a", "x"}, {"c", "z"}}, want: "x b z"},
		{text: "a b c", edits: []edit{{"d", "x"}}, fails: "0 times"},
		{text: "a b b", edits: []edit{{"b", "x"}}, fails: "2 times"},
		{text: "a b c", edits: []edit{{"b", "b"}}, fails: "changes nothing"},
		{text: "a b c", edits: []edit{{"a", "x"}, {"a", "y"}}, fails: "0 times"},
	} {
		m := mutant{file: "file", edits: tt.edits}
		got, err := m.apply(tt.text)
		if failed := err != nil && strings.Contains(err.Error(), tt.fails); got != tt.want || failed != (tt.fails != "") {
			t.Errorf("%q with %v = %q, %v, want %q and an error with %q", tt.text, tt.edits, got, err, tt.want, tt.fails)
		}
	}
}

// Nodes know a script by its digest, and the compiled digest would be that of the right one.
func TestAScriptThatIsChangedChangesItsDigest(t *testing.T) {
	m := mutant{file: "internal/scripts/hold.lua", edits: []edit{{"return holder and 3 or 2", "return 2"}}}
	files, err := m.files("../..")
	if err != nil {
		t.Fatal(err)
	}
	if want := digest(files[m.file]); !strings.Contains(files[digests], want) {
		t.Errorf("the changed script's digest %s is not in the changed %s", want, digests)
	}
}
