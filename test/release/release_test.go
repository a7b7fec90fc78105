package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// theirs is what the guide has its readers paste.
const theirs = "\n```go\n// main.go\npackage main\n\nimport \"example.com/small/driver\"\n\nfunc main() { println(driver.Answer()) }\n```\n"

// small is a repository with a core, a driver that requires it, a command, and an example
// that nobody gets, and a program of theirs.
var small = map[string]string{
	"LICENSE":          "do as you like\n",
	"go.work":          "go 1.25.0\n\nuse (\n\t.\n\t./cmd/tool\n\t./driver\n\t./examples\n)\n",
	"go.mod":           "module example.com/small\n\ngo 1.25.0\n",
	"core.go":          "package small\n\nfunc Answer() int { return 42 }\n",
	"driver/LICENSE":   "do as you like\n",
	"driver/go.mod":    "module example.com/small/driver\n\ngo 1.25.0\n\nrequire example.com/small v0.1.0\n",
	"driver/driver.go": "package driver\n\nimport \"example.com/small\"\n\nfunc Answer() int { return small.Answer() }\n",
	"cmd/tool/LICENSE": "do as you like\n",
	"cmd/tool/go.mod":  "module example.com/small/cmd/tool\n\ngo 1.25.0\n\nrequire example.com/small/driver v0.1.0\n",
	"cmd/tool/main.go": "package main\n\nimport \"example.com/small/driver\"\n\nfunc main() { println(driver.Answer()) }\n",
	"examples/go.mod":  "module example.com/small/examples\n\ngo 1.25.0\n\nrequire example.com/small v0.0.0\n\nreplace example.com/small => ..\n",
	"CHANGELOG.md":     "# Changelog\n\n## v0.1.0\n\n- All.\n",
	"test/release/consumer.go.txt": `package consumer

import (
	"testing"

	"example.com/small"
	"example.com/small/driver"
)

func Test(t *testing.T) {
	if small.Answer() != driver.Answer() {
		t.Error("they differ")
	}
}
`,
	"docs/guide.md":     "# Guide\n\n```sh\ngo mod init shop\ngo get example.com/small example.com/small/driver # or another\n```\n" + theirs,
	"examples/hello.go": "package main\n\nimport \"example.com/small\"\n\nfunc main() { println(small.Answer()) }\n",
}

var errNoDatabase = errors.New("a test asks nobody")

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// repository makes a repository of the files, and of those that are others or, if they are
// empty, missing.
func repository(t *testing.T, changes map[string]string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	files := maps.Clone(small)
	maps.Copy(files, changes)
	git(t, root, "init", "--quiet", "-b", "main")
	git(t, root, "config", "user.name", "maintainers")
	git(t, root, "config", "user.email", "maintainers@example.com")
	commit(t, root, files)
	return root
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	must(t, command(t.Context(), root, nil, "git", args...))
}

func commit(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(name), 0o750))
		if text == "" {
			_ = os.Remove(name) // it need not be there
		} else if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, root, "add", "-A")
	git(t, root, "commit", "--quiet", "-m", "change")
}

// shop is a workshop on the repository.
func shop(t *testing.T, root string) *workshop {
	t.Helper()
	w, err := newWorkshop(t.Context(), root)
	must(t, err)
	t.Cleanup(w.close)
	return w
}

func TestConsumersOfAVersionThatNobodyHasSeenCanBuild(t *testing.T) {
	w := shop(t, repository(t, nil))
	older, newer, err := w.free(t.Context())
	if err != nil || older != "v0.1.1" || newer != "v0.2.0" {
		t.Fatalf("free = %v, %v, %v, want the two above what the modules require", older, newer, err)
	}
	for _, version := range []string{older, newer} {
		must(t, w.publish(t.Context(), version))
	}
	must(t, w.prove(t.Context(), newer))
	must(t, w.proveMixed(t.Context(), older, newer))
}

func TestAGuideThatDoesNotWorkIsFound(t *testing.T) {
	for name, guide := range map[string]string{
		"does not get a module": "# Guide\n\n```sh\ngo get example.com/small\n```\n" + strings.ReplaceAll(theirs, "driver", "other"),
		"does not compile":      small["docs/guide.md"] + strings.NewReplacer("main.go", "more.go", "Answer", "Nothing", "main()", "more()").Replace(theirs),
	} {
		w := shop(t, repository(t, map[string]string{"docs/guide.md": guide}))
		must(t, w.publish(t.Context(), "v0.1.1"))
		if err := w.proveGuide(t.Context(), "v0.1.1"); err == nil || !strings.Contains(err.Error(), "the guide: go ") {
			t.Errorf("a guide that %s: %v, want an error", name, err)
		}
	}
}

func TestWhatIsHereCanBeTriedAsAUserHasIt(t *testing.T) {
	root := repository(t, map[string]string{"core.go": "package small\n\nfunc Answer() int { return 43 }\n"})
	ctx, stop := context.WithCancel(t.Context())
	said, says := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := lend(ctx, root, says)
		_ = says.CloseWithError(err)
		ended <- err
	}()
	var env []string
	for lines := bufio.NewScanner(said); lines.Scan(); {
		if variable, ok := strings.CutPrefix(lines.Text(), "export '"); ok {
			env = append(env, strings.TrimSuffix(variable, "'"))
		}
		if len(env) == 5 {
			break
		}
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(strings.Split(theirs, "```")[1][len("go\n"):]), 0o600))
	for _, args := range [][]string{{"mod", "init", "shop"}, {"get", "example.com/small", "example.com/small/driver"}, {"build", "-o", "shop"}} {
		must(t, command(t.Context(), dir, env, "go", args...))
	}
	if got, err := exec.CommandContext(t.Context(), filepath.Join(dir, "shop")).CombinedOutput(); err != nil || string(got) != "43\n" { //nolint:gosec // built here
		t.Errorf("their program says %q, %v, want what is here", got, err)
	}
	stop()
	must(t, <-ended)
}

// One commit has the sums of versions that nobody can download yet, and the workspace needs
// none of them. A user may have a newer core than the driver was made with, so a driver must not use
// what the core does not promise.
func TestAReleaseIsACommitWithTagsThatBuildsAndThatTheNextOneIsTriedWith(t *testing.T) {
	root := repository(t, nil)
	must(t, release(t.Context(), root, "v0.1.0", errNoDatabase))
	tags, err := output(t.Context(), root, nil, "git", "tag", "--points-at", "HEAD")
	if want := "cmd/tool/v0.1.0\ndriver/v0.1.0\nv0.1.0"; tags != want || err != nil {
		t.Errorf("tags = %q, %v, want %q", tags, err, want)
	}
	if lines := sums(filepath.Join(root, "cmd/tool")); lines != 4 {
		t.Errorf("the command's go.sum has %d lines, want two each for driver and core", lines)
	}
	for _, dir := range []string{".", "driver", "cmd/tool", "examples"} {
		must(t, command(t.Context(), filepath.Join(root, dir), []string{"GOPROXY=off"}, "go", "vet", "./..."))
	}
	must(t, command(t.Context(), filepath.Join(root, "examples"), []string{"GOPROXY=off", "GOWORK=off"}, "go", "vet", "./..."))

	w := shop(t, root)
	if last, err := w.serveLast(t.Context()); last != "v0.1.0" || err != nil || !w.complete(last) {
		t.Fatalf("serveLast = %v, %v without %v, want v0.1.0 of all modules", last, err, w.fresh)
	}
	commit(t, w.tree, map[string]string{
		"core.go":          "package small\n\nfunc TheAnswer() int { return 42 }\n",
		"driver/driver.go": "package driver\n\nimport \"example.com/small\"\n\nfunc Answer() int { return small.TheAnswer() }\n",
	})
	must(t, w.publish(t.Context(), "v0.1.1"))
	if err := w.proveMixed(t.Context(), "v0.1.0", "v0.1.1"); err == nil || !strings.Contains(err.Error(), "undefined: small.Answer") {
		t.Errorf("two versions = %v, want that the last driver cannot be built", err)
	}
}

func TestWhatUsersCarryIsMeasured(t *testing.T) {
	sums, err := os.ReadFile("go.sum") // it has golang.org/x/mod, which is in the cache, as this test is built with it
	must(t, err)
	const (
		asks = "\nrequire golang.org/x/mod v0.42.0\n"
		uses = "\nimport _ \"golang.org/x/mod/semver\"\n"
	)
	heavy := map[string]string{"driver/go.mod": small["driver/go.mod"] + asks, "driver/go.sum": string(sums), "driver/client.go": "package driver\n" + uses}
	for _, tt := range []struct {
		name    string
		changes map[string]string
		clients map[string][]string
		want    []string
	}{
		{"as it is", nil, nil, nil},
		{"a driver with its client", heavy, map[string][]string{"driver": {"golang.org/x/mod/semver"}}, nil},
		{"a driver with something else", heavy, nil, []string{
			"users of example.com/small/driver carry golang.org/x/mod/semver", "example.com/small/driver requires golang.org/x/mod",
		}},
		{"a core with a client", map[string]string{
			"go.mod": small["go.mod"] + asks, "go.sum": string(sums), "client.go": "package small\n" + uses,
		}, nil, []string{"users of example.com/small carry golang.org/x/mod/semver", "example.com/small requires golang.org/x/mod"}},
		{"a core with a check for leaks", map[string]string{
			"test/leak/leak.go": "package leak\n", "leaks.go": "package small\n\nimport _ \"example.com/small/test/leak\"\n",
		}, nil, []string{"example.com/small imports example.com/small/test/leak outside of tests"}},
		{"a driver with a package of the core's own", map[string]string{
			"internal/own/own.go": "package own\n", "driver/own.go": "package driver\n\nimport _ \"example.com/small/internal/own\"\n",
		}, nil, []string{"example.com/small/driver imports example.com/small/internal/own, which another version may not have"}},
	} {
		w := shop(t, repository(t, tt.changes))
		w.clients, w.env = tt.clients, append(w.env, "GOSUMDB=off")
		must(t, w.publish(t.Context(), "v0.1.1"))
		err := w.measure(t.Context(), "v0.1.1")
		if len(tt.want) == 0 && err != nil {
			t.Errorf("%s: %v, want no error", tt.name, err)
		}
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", tt.name, err, want)
			}
		}
	}
}

func TestWhatIsNotCommittedIsMeasuredToo(t *testing.T) {
	root := repository(t, nil)
	for name, text := range map[string]string{"core.go": "package small\n\nfunc Changed() {}\n", "new.go": "package small\n"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	before, err := output(t.Context(), root, nil, "git", "status", "--porcelain")
	must(t, err)
	w := shop(t, root)
	for _, name := range []string{"core.go", "new.go"} {
		want, _ := os.ReadFile(filepath.Join(root, name))    //nolint:gosec // written above
		got, err := os.ReadFile(filepath.Join(w.tree, name)) //nolint:gosec // of the test
		if string(got) != string(want) {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
	if after, err := output(t.Context(), root, nil, "git", "status", "--porcelain"); after != before || err != nil {
		t.Errorf("status = %q, %v, want as before: %q", after, err, before)
	}
}

func TestAReleaseIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		changes map[string]string
		want    string
	}{
		{"without a section in the CHANGELOG", map[string]string{"CHANGELOG.md": "# Changelog\n\n## v0.1.01\n"}, `has no section "## v0.1.0"`},
		{"of a module with a replace directive", map[string]string{
			"driver/go.mod": small["driver/go.mod"] + "\nreplace example.com/small => ..\n",
		}, "replace directives"},
		{"of a module without the LICENSE", map[string]string{"driver/LICENSE": ""}, "LICENSE"},
		{"of a module that requires what nobody gets", map[string]string{
			"driver/go.mod": small["driver/go.mod"] + "\nrequire example.com/small/examples v0.1.0\n",
		}, "which nobody gets"},
	} {
		root := repository(t, tt.changes)
		if err := release(t.Context(), root, "v0.1.0", errNoDatabase); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("release %s = %v, want %q in it", tt.name, err, tt.want)
		}
	}
}
