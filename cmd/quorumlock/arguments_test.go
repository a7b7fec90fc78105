package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sample is a value of a flag that is not its default.
func sample(f *pflag.Flag) string {
	return map[string]string{
		"duration": "3s", "int": "3", "uint64": "7", "float64": "0.5", "string": "word", "stringArray": "word", "stringSlice": "word", "format": "json",
	}[f.Value.Type()]
}

// parsed are what a verb has for itself, and what it has read for a flag.
func parsed(t *testing.T, path []string, name string, args ...string) (value string, rest []string) {
	t.Helper()
	root := (&tool{out: new(bytes.Buffer), talk: new(bytes.Buffer), getenv: func(string) string { return "" }}).root()
	verb, _, err := root.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := verb.ParseFlags(joined(root, slices.Concat(path, args))[len(path):]); err != nil {
		t.Errorf("%q: %v", slices.Concat(path, args), err)
	}
	return verb.Flag(name).Value.String(), verb.Flags().Args()
}

// A flag with a value takes it behind a space as behind =, whichever flag of whichever verb it is.
func TestEveryFlagTakesItsValueBehindASpace(t *testing.T) {
	tried := 0
	var walk func(verb *cobra.Command)
	walk = func(verb *cobra.Command) {
		path := strings.Fields(verb.CommandPath())[1:]
		verb.Flags().VisitAll(func(f *pflag.Flag) {
			value := sample(f)
			if f.Value.Type() == "bool" {
				return
			}
			if value == "" {
				t.Fatalf("%s --%s: the test knows no value of a %s", verb.CommandPath(), f.Name, f.Value.Type())
			}
			tried++
			forms := map[string][]string{"=": {"--" + f.Name + "=" + value}, "a space": {"--" + f.Name, value}}
			if f.Shorthand != "" {
				forms["a letter and a space"] = []string{"-" + f.Shorthand, value}
			}
			want, _ := parsed(t, path, f.Name, forms["="]...)
			if want == f.DefValue {
				t.Fatalf("%s --%s=%s is its default", verb.CommandPath(), f.Name, value)
			}
			for form, args := range forms {
				got, rest := parsed(t, path, f.Name, append(args, "--", "word")...)
				if got != want || !slices.Equal(slices.DeleteFunc(rest, func(w string) bool { return w == "--" }), []string{"word"}) {
					t.Errorf("%s %q: behind %s the value is %q and the arguments are %q, want %q and one word", verb.CommandPath(), args, form, got, rest, want)
				}
			}
		})
		for _, below := range verb.Commands() {
			walk(below)
		}
	}
	walk((&tool{out: new(bytes.Buffer), getenv: func(string) string { return "" }}).root())
	if tried < 50 {
		t.Errorf("only %d flags were tried", tried)
	}
}

// What is no value of a flag that may do without one is an argument, as it was.
func TestAKeyBehindAFlagThatNeedsNoValueIsAKey(t *testing.T) {
	for _, tt := range []struct {
		args  string
		watch string
		keys  string
	}{
		{"--watch", "2s", ""},
		{"--watch orders:42", "2s", "orders:42"},
		{"--watch 500ms orders:42", "500ms", "orders:42"},
		{"orders:42 --watch 3s", "3s", "orders:42"},
		{"2s --watch", "2s", "2s"},
		{"--watch --full", "2s", ""},
		{"--watch -- 5s", "2s", "5s"},
		{"--watch=3s 5s", "3s", "5s"},
		{"--profile --watch 5s", "0s", "5s"}, // of a profile of that name
		{"-o json --watch 5s", "5s", ""},
		{"-ojson --watch 5s", "5s", ""},
	} {
		watch, keys := parsed(t, []string{"status"}, "watch", strings.Fields(tt.args)...)
		if watch != tt.watch || strings.Join(keys, " ") != tt.keys {
			t.Errorf("status %s: every %s of keys %q, want every %s of %q", tt.args, watch, keys, tt.watch, tt.keys)
		}
	}
	for args, want := range map[string]string{
		"--check": "[all]", "--check tls": "[tls]", "--check tls,acl --for 3s": "[tls,acl]", "--check --for 3s": "[all]", "--for 3s --check acl": "[acl]",
	} {
		if got, rest := parsed(t, []string{"doctor"}, "check", strings.Fields(args)...); got != want || len(rest) > 0 {
			t.Errorf("doctor %s judges by %s, with arguments %q, want %s and none", args, got, rest, want)
		}
	}
	// What stands behind the key of run is its program's.
	if _, rest := parsed(t, []string{"run"}, "ttl", strings.Fields("--ttl 3s k -- status --watch 5s")...); strings.Join(rest, " ") != "k -- status --watch 5s" {
		t.Errorf("of a program the words are %q", rest)
	}
}

func TestEveryVerbTellsTheVersion(t *testing.T) {
	for _, verb := range []string{"", "run", "elect", "status", "release", "settings", "doctor", "left", "profile", "profile check", "version"} {
		if got := run(t, nil, append(strings.Fields(verb), "--version")...); got.code != exitOK || !strings.HasPrefix(got.out, "quorumlock ") || strings.Count(got.out, "\n") != 1 {
			t.Errorf("quorumlock %s --version = %+v, want one line with the version", verb, got)
		}
	}
	if got := run(t, []string{"QUORUMLOCK_VERSION=v1"}, "version"); got.code != exitOK {
		t.Errorf("with a variable called as the flag: %+v", got)
	}
}
