package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// prove does what users do who have only the proxy: they get each module alone and all of
// them together, take a lock, install the commands, and vet what they got, examples
// included.
func (w *workshop) prove(ctx context.Context, version string) error {
	for _, m := range w.modules {
		packages, commands, err := w.packages(ctx, m)
		if err != nil {
			return err
		}
		if len(packages) > 0 {
			if err := w.proveAlone(ctx, m, version); err != nil {
				return fmt.Errorf("a consumer of %s alone: %w", m.path, err)
			}
		}
		for _, path := range commands {
			bin := filepath.Join(w.dir, "bin")
			if err := command(ctx, w.dir, append(slices.Clone(w.env), "GOBIN="+bin), "go", "install", path+"@"+version); err != nil {
				return err
			}
			fmt.Printf("go install %s@%s works\n", path, version)
		}
		if err := w.vet(ctx, m, version); err != nil {
			return fmt.Errorf("%s as it is in its zip: %w", m.path, err)
		}
	}
	return errors.Join(
		w.proveTogether(ctx, "all modules together", version, version, at(version, w.modules...)),
		w.proveGuide(ctx, version),
	)
}

var (
	blocks = regexp.MustCompile("(?s)\n```(sh|go)\n(.*?\n)```\n")
	gets   = regexp.MustCompile(`(?m)^go get ([^#\n]+)`)
	named  = regexp.MustCompile(`^// (\w+\.go)\n`)
)

// proveGuide does what the guide says, in its order and in an empty folder: it gets modules, pastes
// files, and builds. (What its program says over servers is a test in test/pages.)
func (w *workshop) proveGuide(ctx context.Context, version string) error {
	guide, err := os.ReadFile(filepath.Join(w.tree, "docs", "guide.md"))
	if err != nil {
		return err
	}
	dir, err := w.consumer(ctx)
	if err != nil {
		return err
	}
	tidies := false
	env := append(slices.Clone(w.env), "GOFLAGS="+goFlags) // go.mod and go.sum have what go get has put there
	for _, block := range blocks.FindAllSubmatch(guide, -1) {
		text := string(block[2])
		var todo [][]string
		if line := gets.FindStringSubmatch(text); line != nil {
			todo = [][]string{{"get"}}
			for path := range strings.FieldsSeq(line[1]) {
				if inside(path, w.modules[0].path) { // older versions may be served, too
					path += "@" + version
				}
				todo[0] = append(todo[0], path)
			}
		} else if name := named.FindStringSubmatch(text); name != nil {
			if err := os.WriteFile(filepath.Join(dir, name[1]), block[2], 0o600); err != nil { //nolint:gosec // a word, as the pattern says
				return err
			}
			if tidies = tidies || strings.HasSuffix(name[1], "_test.go"); tidies { // so the guide says from its test on
				todo = [][]string{{"mod", "tidy"}}
			}
			todo = append(todo, []string{"build", "-o", filepath.Join(dir, "program"), "."}, []string{"vet", "."})
		}
		for _, args := range todo {
			if err := command(ctx, dir, env, "go", args...); err != nil {
				return fmt.Errorf("the guide: %w", err)
			}
		}
	}
	if err := command(ctx, dir, env, "go", "test", "."); err != nil {
		return fmt.Errorf("the guide: %w", err)
	}
	fmt.Printf("the guide works as it is pasted, with %d lines in go.sum\n", sums(dir))
	return nil
}

// packages are those of a module that users import, and its commands.
func (w *workshop) packages(ctx context.Context, m *module) (packages, commands []string, err error) {
	listed, err := output(ctx, filepath.Join(w.tree, m.dir), w.env, "go", "list", "-f", "{{.Name}} {{.ImportPath}}", "./...")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(listed) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.Contains(path+"/", "/internal/"), strings.Contains(path, "/test/"):
		case name == "main":
			commands = append(commands, path)
		default:
			packages = append(packages, path)
		}
	}
	return packages, commands, nil
}

// consumer makes an empty module of somebody else's.
func (w *workshop) consumer(ctx context.Context) (dir string, err error) {
	if dir, err = os.MkdirTemp(w.dir, "consumer-"); err != nil {
		return "", err
	}
	return dir, command(ctx, dir, w.env, "go", "mod", "init", "consumer.example")
}

// consumerOf makes one that imports all packages of these modules.
func (w *workshop) consumerOf(ctx context.Context, version string, modules ...*module) (dir string, err error) {
	if dir, err = w.consumer(ctx); err != nil {
		return "", err
	}
	var program bytes.Buffer
	program.WriteString("package main\n\nimport (\n")
	for _, m := range modules {
		packages, _, err := w.packages(ctx, m)
		if err != nil {
			return "", err
		}
		for _, path := range packages {
			fmt.Fprintf(&program, "\t_ %q\n", path)
		}
	}
	program.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), program.Bytes(), 0o600); err != nil {
		return "", err
	}
	for _, args := range [][]string{append([]string{"get"}, at(version, modules...)...), {"mod", "tidy"}} {
		if err := command(ctx, dir, w.env, "go", args...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (w *workshop) proveAlone(ctx context.Context, m *module, version string) error {
	dir, err := w.consumerOf(ctx, version, m)
	if err != nil {
		return err
	}
	for _, does := range []string{"build", "vet"} {
		if err := command(ctx, dir, w.env, "go", does, "."); err != nil {
			return err
		}
	}
	fmt.Printf("a consumer of %s alone has %d lines in go.sum\n", m.path, sums(dir))
	return nil
}

// sums is how many lines the go.sum of a folder has.
func sums(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "go.sum")) //nolint:gosec // none: a module that requires nothing
	return bytes.Count(text, []byte("\n"))
}

// proveTogether builds and runs a program that uses all modules, in the versions that the
// user gets one after the other, and wants to end with these of the core and the rest.
func (w *workshop) proveTogether(ctx context.Context, who, core, rest string, gets ...[]string) error {
	dir, err := w.consumer(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(w.tree, filepath.FromSlash(w.program)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "lock_test.go"), text, 0o600); err != nil { //nolint:gosec // of the copy
		return err
	}
	for _, get := range gets {
		if err := command(ctx, dir, w.env, "go", append([]string{"get"}, get...)...); err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"vet", "."}, {"test", "-count=1", "."}} {
		if err := command(ctx, dir, w.env, "go", args...); err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
	}
	file, err := readMod(dir)
	if err != nil {
		return err
	}
	for _, r := range file.Require {
		want := rest
		if r.Mod.Path == w.modules[0].path {
			want = core
		}
		if inside(r.Mod.Path, w.modules[0].path) && r.Mod.Version != want {
			return fmt.Errorf("%s: %s, want %s", who, r.Mod, want)
		}
	}
	fmt.Printf("%s work: %s of the core, %s of the rest, %d lines in go.sum\n", who, core, rest, sums(dir))
	return nil
}

// at names modules by version, as go get wants them.
func at(version string, modules ...*module) (names []string) {
	for _, m := range modules {
		names = append(names, m.path+"@"+version)
	}
	return names
}

// proveMixed lets users upgrade one half of what they have.
func (w *workshop) proveMixed(ctx context.Context, older, newer string) error {
	core, rest := w.modules[:1], w.modules[1:]
	return errors.Join(
		// The drivers lift the core to what they require.
		w.proveTogether(ctx, "an older core and newer drivers", newer, newer, at(older, core...), at(newer, rest...)),
		w.proveTogether(ctx, "a newer core and older drivers", newer, older, at(older, w.modules...), at(newer, core...)),
	)
}

// unpack makes a folder of a module's zip.
func (w *workshop) unpack(m *module, version string) (dir string, err error) {
	if dir, err = os.MkdirTemp(w.dir, "zip-"); err != nil {
		return "", err
	}
	archive, err := zip.OpenReader(filepath.Join(w.served(m), version+".zip"))
	if err != nil {
		return "", err
	}
	defer func() { _ = archive.Close() }()
	return filepath.Join(dir, filepath.FromSlash(m.path)+"@"+version), os.CopyFS(dir, archive)
}

// vet looks at what is in a module's zip, tests and examples included.
func (w *workshop) vet(ctx context.Context, m *module, version string) error {
	dir, err := w.unpack(m, version)
	if err != nil {
		return err
	}
	return command(ctx, dir, w.env, "go", "vet", "./...")
}
