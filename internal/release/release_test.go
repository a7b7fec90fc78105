package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// small is a repository with a core, a driver that requires it, a command, and an example
// that nobody gets.
var small = map[string]string{
	"LICENSE":           "do as you like\n",
	"go.work":           "go 1.25.0\n\nuse (\n\t.\n\t./cmd/tool\n\t./driver\n\t./examples\n)\n",
	"go.mod":            "module example.com/small\n\ngo 1.25.0\n",
	"core.go":           "package small\n\nfunc Answer() int { return 42 }\n",
	"driver/LICENSE":    "do as you like\n",
	"driver/go.mod":     "module example.com/small/driver\n\ngo 1.25.0\n\nrequire example.com/small v0.1.0\n",
	"driver/driver.go":  "package driver\n\nimport \"example.com/small\"\n\nfunc Answer() int { return small.Answer() }\n",
	"cmd/tool/LICENSE":  "do as you like\n",
	"cmd/tool/go.mod":   "module example.com/small/cmd/tool\n\ngo 1.25.0\n\nrequire example.com/small/driver v0.1.0\n",
	"cmd/tool/main.go":  "package main\n\nimport \"example.com/small/driver\"\n\nfunc main() { println(driver.Answer()) }\n",
	"examples/go.mod":   "module example.com/small/examples\n\ngo 1.25.0\n\nrequire example.com/small v0.0.0\n\nreplace example.com/small => ..\n",
	"examples/hello.go": "package main\n\nimport \"example.com/small\"\n\nfunc main() { println(small.Answer()) }\n",
}

// repository makes a repository of the files, and of those that are others or, if they are
// empty, missing.
func repository(t *testing.T, changes map[string]string) string {
	t.Helper()
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
	if err := command(t.Context(), root, nil, "git", args...); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			_ = os.Remove(name) // it need not be there
		} else if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, root, "add", "-A")
	git(t, root, "commit", "--quiet", "-m", "change")
}

// shop is a workshop on the repository whose consumers use all of it.
func shop(t *testing.T, root string) *workshop {
	t.Helper()
	w, err := newWorkshop(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	w.program = []byte("package consumer\n\nimport (\n\t\"testing\"\n\n\t\"MODULE\"\n\t\"MODULE/driver\"\n)\n\nfunc Test(t *testing.T) {\n\tif small.Answer() != driver.Answer() {\n\t\tt.Error(\"they differ\")\n\t}\n}\n")
	return w
}

func TestConsumersOfAVersionThatNobodyHasSeenCanBuild(t *testing.T) {
	w := shop(t, repository(t, nil))
	older, newer, err := w.rehearsed(t.Context())
	if err != nil || older != "v0.1.1" || newer != "v0.1.2" {
		t.Fatalf("rehearsed = %v, %v, %v, want the two above what the modules require", older, newer, err)
	}
	for _, version := range []string{older, newer} {
		if err := w.publish(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.prove(t.Context(), newer); err != nil {
		t.Error(err)
	}
	if err := w.proveMixed(t.Context(), older, newer); err != nil {
		t.Error(err)
	}
}

// A user may have a newer core than the driver was made with, so a driver must not use what
// the core does not promise.
func TestAnInternalPackageThatChangesBreaksUsersOfTwoVersions(t *testing.T) {
	root := repository(t, map[string]string{
		"internal/hidden/hidden.go": "package hidden\n\nfunc Answer() int { return 42 }\n",
		"driver/driver.go":          "package driver\n\nimport \"example.com/small/internal/hidden\"\n\nfunc Answer() int { return hidden.Answer() }\n",
	})
	w := shop(t, root)
	if err := w.publish(t.Context(), "v0.1.1"); err != nil {
		t.Fatal(err)
	}
	commit(t, w.tree, map[string]string{
		"internal/hidden/hidden.go": "package hidden\n\nfunc TheAnswer() int { return 42 }\n",
		"driver/driver.go":          "package driver\n\nimport \"example.com/small/internal/hidden\"\n\nfunc Answer() int { return hidden.TheAnswer() }\n",
	})
	if err := w.publish(t.Context(), "v0.1.2"); err != nil {
		t.Fatal(err)
	}
	if err := w.prove(t.Context(), "v0.1.2"); err != nil {
		t.Errorf("one version alone = %v, want no error", err)
	}
	if err := w.proveMixed(t.Context(), "v0.1.1", "v0.1.2"); err == nil || !strings.Contains(err.Error(), "undefined: hidden.Answer") {
		t.Errorf("two versions = %v, want that the older driver cannot be built", err)
	}
}

func TestAReleaseIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		changes map[string]string
		want    string
	}{
		{"without a section in the CHANGELOG", map[string]string{"CHANGELOG.md": "# Changelog\n"}, `has no section "## v0.1.0"`},
		{"of a module with a replace directive", map[string]string{
			"CHANGELOG.md":  "# Changelog\n\n## v0.1.0\n",
			"driver/go.mod": small["driver/go.mod"] + "\nreplace example.com/small => ..\n",
		}, "replace directives"},
		{"of a module without the LICENSE", map[string]string{"CHANGELOG.md": "# Changelog\n\n## v0.1.0\n", "driver/LICENSE": ""}, "LICENSE"},
		{"of a module that requires what nobody gets", map[string]string{
			"CHANGELOG.md":  "# Changelog\n\n## v0.1.0\n",
			"driver/go.mod": small["driver/go.mod"] + "\nrequire example.com/small/examples v0.1.0\n",
		}, "which nobody gets"},
	} {
		root := repository(t, tt.changes)
		if err := release(t.Context(), root, "v0.1.0"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("release %s = %v, want %q in it", tt.name, err, tt.want)
		}
	}
}
