package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) {
	logging.Disable() // as main does
	other()
	leak.Main(m)
}

// A result is what a run of the command has left.
type result struct {
	code      int
	out, talk string
}

// run runs the command in this process, with an environment of its own: "NAME=value".
func run(t testing.TB, env []string, args ...string) result {
	t.Helper()
	return runIn(t.Context(), t, env, args...)
}

// runIn is run until a context ends.
func runIn(ctx context.Context, t testing.TB, env []string, args ...string) result {
	t.Helper()
	home := t.TempDir()
	var out, talk bytes.Buffer
	tl := &tool{in: strings.NewReader(""), out: &out, talk: &talk, getenv: having(append(slices.Clip(env), "HOME="+home)...)}
	code := tl.run(ctx, args)
	return result{code, out.String(), talk.String()}
}

// having is an environment, of which the first entry of a name counts.
func having(env ...string) (getenv func(string) string) {
	return func(name string) string {
		for _, e := range env {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// wants fails the test unless the command ends so, and says these texts: behind "2> " on stderr, and otherwise on stdout,
// which is empty if none is wanted there.
func wants(t *testing.T, what string, got result, code int, says ...string) {
	t.Helper()
	ok, silent := got.code == code, true
	for _, text := range says {
		if talk, is := strings.CutPrefix(text, "2> "); is {
			ok = ok && strings.Contains(got.talk, talk)
		} else {
			ok, silent = ok && strings.Contains(got.out, text), false
		}
	}
	if !ok || silent && got.out != "" {
		t.Errorf("%s = %+v, want code %d and %q", what, got, code, says)
	}
}

// file writes a file of the test's own, and returns its name.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil { //nolint:gosec // the test's own
		t.Fatal(err)
	}
	return path
}

// What users of the command read has no names of Go in it, wherever in the library it was written.
func TestNoMessageNamesWhatOnlyProgramsHave(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`\bWith[A-Z][A-Za-z]*|\bLocker\.[A-Z]\w*|\b[A-Z]\w*Options\.\w+|\ba Durability\b`)
	unreached := regexp.MustCompile(`WithFairness|WithOwner|WithToken|WithMaxAcquires`) // options that the command has no flag for, and does not mix up
	read := 0
	for _, folder := range []string{"redlock", "internal/inspect", "internal/supervise", "internal/fault", "internal/gate", "internal/node", "internal/protocol", "internal/quorum", "internal/waiting"} {
		files, err := filepath.Glob("../../" + folder + "/*.go")
		if err != nil || files == nil {
			t.Fatalf("%s has no files: %v", folder, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				if named.MatchString(text) {
					read++
				}
				if said := spoken(errors.New(text)); named.MatchString(said) && !unreached.MatchString(said) {
					t.Errorf("%s: users of the command read %q: put its names into those of the command (inFlags)", set.Position(literal.Pos()), said)
				}
				return true
			})
		}
	}
	if read == 0 {
		t.Error("the library names none of its options in any message, so this test sees nothing")
	}
}

func TestASettingComesFromTheFlagElseTheEnvironmentElseTheProfile(t *testing.T) {
	profile := file(t, "p.conf", "# ours\nnodes = redis://:secret@10.0.0.1\nprefix = a:\nttl = 5s\nfences = true\nnodes = rediss://u:secret@10.0.0.2:7000/3?servername=x\n")
	got := run(t, []string{"QUORUMLOCK_PROFILE=" + profile, "QUORUMLOCK_PREFIX=b:", "QUORUMLOCK_TTL=6s", "QUORUMLOCK_GUARD="},
		"profile", "check", "--ttl", "7s")
	if got.code != exitOK || got.talk != "" {
		t.Fatalf("profile check = %d, %q, want no error", got.code, got.talk)
	}
	rows := regexp.MustCompile(" +").ReplaceAllString(got.out, " ")
	for _, row := range []string{
		"nodes redis://10.0.0.1 rediss://10.0.0.2:7000/3 " + profile + ":2",
		"prefix b: environment QUORUMLOCK_PREFIX",
		"ttl 7s flag --ttl",
		"fences true " + profile + ":5",
		"guard false default",
	} {
		if !strings.Contains(rows, "\n"+row+"\n") {
			t.Errorf("no row %q in\n%s", row, got.out)
		}
	}
	if strings.Contains(got.out, "secret") {
		t.Errorf("a password is shown:\n%s", got.out)
	}
}

func TestAProfileIsTheUsersOwnOrElseTheMachines(t *testing.T) {
	config := t.TempDir()
	if err := os.MkdirAll(filepath.Join(config, "quorumlock"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"default.conf": "nodes = redis://a\n", "prod.conf": "nodes = redis://b\n"} {
		if err := os.WriteFile(filepath.Join(config, "quorumlock", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "redis://a"},
		{[]string{"--profile", "prod"}, "redis://b"},
	} {
		got := run(t, []string{"XDG_CONFIG_HOME=" + config}, append([]string{"profile", "check"}, tt.args...)...)
		wants(t, fmt.Sprintf("profile check %v", tt.args), got, exitOK, tt.want)
	}
}

func TestTheHelpNamesEveryExitCodeAndVariable(t *testing.T) {
	codes, variables := run(t, nil, "help", "exit-codes"), run(t, nil, "help", "environment")
	for _, c := range exitCodes {
		if !strings.Contains(codes.out, c.code+" ") || !strings.Contains(codes.out, c.means) {
			t.Errorf("help exit-codes does not say what %s means:\n%s", c.code, codes.out)
		}
	}
	for _, name := range new(settings).names() {
		if !strings.Contains(variables.out, variable(name)) {
			t.Errorf("help environment does not name %s:\n%s", variable(name), variables.out)
		}
	}
}

func TestThereIsAPageForEveryVerb(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man")
	if got := run(t, nil, "man", folder); got.code != exitOK || got.talk != "" {
		t.Fatalf("man = %d, %q, want no error", got.code, got.talk)
	}
	for _, name := range []string{"quorumlock.1", "quorumlock-profile-check.1"} {
		text, err := os.ReadFile(filepath.Join(folder, name)) //nolint:gosec // written above
		if err != nil || !strings.Contains(string(text), ".SH SYNOPSIS") {
			t.Errorf("%s: %v, %d bytes, want a page with a synopsis", name, err, len(text))
		}
		if strings.Contains(string(text), "completion") {
			t.Errorf("%s is also about completions", name)
		}
	}
	if pages, _ := filepath.Glob(filepath.Join(folder, "*completion*")); pages != nil {
		t.Errorf("there are pages of completions: %q", pages)
	}
}

func TestCompletionIsThereForThreeShells(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		wants(t, shell, run(t, nil, "completion", shell), exitOK, "quorumlock")
	}
	wants(t, "powershell", run(t, nil, "completion", "powershell"), exitUsage)
}

func TestColoursAndWidthFollowTheEnvironment(t *testing.T) {
	for _, tt := range []struct {
		env  string
		want screen
	}{
		{"", screen{}},
		{"COLUMNS=200", screen{width: 200}},
		{"CLICOLOR_FORCE=1", screen{colour: true}},
		{"CLICOLOR_FORCE=0", screen{}},
		{"CLICOLOR_FORCE=1 NO_COLOR=1", screen{}},
		{"COLUMNS=wide", screen{}},
	} {
		tl := &tool{out: new(bytes.Buffer), getenv: having(strings.Fields(tt.env)...)}
		if got := tl.screen(); got != tt.want {
			t.Errorf("with %v the screen is %+v, want %+v", tt.env, got, tt.want)
		}
	}
}

func TestAScreenPaintsAndWraps(t *testing.T) {
	lines := screen{width: 20}.wrap("every lock can be evicted by maxmemory-policy", 8)
	for _, line := range lines {
		if len(line) > 12 && strings.Contains(line, " ") {
			t.Errorf("behind 8 blanks %q is wider than the screen of 20", line)
		}
	}
	if text := strings.Join(lines, " "); text != "every lock can be evicted by maxmemory-policy" {
		t.Errorf("the lines are %q, want all words", lines)
	}
	if got := (screen{}).wrap("as it is", 8); len(got) != 1 {
		t.Errorf("without a width there are %d lines, want one", len(got))
	}
	for _, c := range []colour{plain, red, green, yellow, cyan, grey} {
		if got := (screen{colour: true}).paint(c, "x"); len(got) != 10 {
			t.Errorf("%q takes %d bytes, want 10 as all colours do, or columns would be askew", got, len(got))
		}
	}
	if got := (screen{}).paint(red, "x"); got != "x" {
		t.Errorf("without colours x is %q", got)
	}
}

func TestNodesOpenByTheirURLs(t *testing.T) {
	s := settings{urls: []string{"redis://10.0.0.1,rediss://10.0.0.2:7000", "@" + file(t, "nodes", "# the third\nredis://:secret@10.0.0.3\n")}}
	nodes, err := s.open()
	if err != nil || len(nodes) != 3 || nodes[0].Name != "10.0.0.1:6379" || nodes[1].Name != "10.0.0.2:7000" || nodes[2].Name != "10.0.0.3:6379" {
		t.Errorf("open = %+v, %v, want three nodes by their addresses", nodes, err)
	}
}

func TestAnErrorHasTheExitCodeOfWhatItMatches(t *testing.T) {
	refused := driver.Reply{Kind: driver.Failure, Str: "NOPERM no"}.Err()
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("?"), exitSoftware},
		{exitf(exitConfig, "no nodes"), exitConfig},
		{fmt.Errorf("more: %w", exit(exitUsage, redlock.ErrTaken)), exitUsage},
		{&verdict{3}, 3},
		{&redlock.OptionError{Option: "TTL"}, exitUsage},
		{&redlock.QuorumError{Reason: redlock.ErrTaken, Votes: []redlock.Vote{{Err: refused}}}, exitTaken},
		{&redlock.QuorumError{Reason: redlock.ErrNoQuorum}, exitUnavailable},
		{&redlock.QuorumError{Reason: redlock.ErrNoQuorum, Votes: []redlock.Vote{{Err: refused}}}, exitForbidden},
		{&redlock.QuorumError{Reason: redlock.ErrContended}, exitUnavailable},
		{refused, exitForbidden},
		{redlock.ErrNodeSet, exitConfig},
		{redlock.ErrLost, exitLost},
		{context.DeadlineExceeded, exitUnavailable},
	} {
		if got := codeOf(tt.err); got != tt.want {
			t.Errorf("%v ends with %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestASignalEndsTheCommandByItsNumber(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted(syscall.SIGINT))
	wants(t, "doctor, interrupted,", runIn(ctx, t, []string{"QUORUMLOCK_NODES=redis://127.0.0.1:1"}, "doctor"), 128+int(syscall.SIGINT), "2> interrupt")
}

func TestTheVersionNamesTheModules(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"}, Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v0.1.0"}, {Path: "example.com/b", Version: "v0.2.0", Replace: &debug.Module{Path: "../b"}},
	}}
	text := versions(info).String()
	for _, want := range []string{"quorumlock     v1.2.3  go1.26\n", "example.com/a  v0.1.0\n", "example.com/b  v0.2.0  replaced by ../b\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the versions are %q, want %q in them", text, want)
		}
	}
}
