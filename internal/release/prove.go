package main

import (
	"archive/zip"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	modpath "golang.org/x/mod/module"
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
			if err := w.proveAlone(ctx, m, version, packages); err != nil {
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
	versions := map[string]string{}
	for _, m := range w.modules {
		versions[m.path] = version
	}
	return w.proveTogether(ctx, "all modules together", versions)
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

func (w *workshop) proveAlone(ctx context.Context, m *module, version string, packages []string) error {
	dir, err := w.consumer(ctx)
	if err != nil {
		return err
	}
	var program bytes.Buffer
	program.WriteString("package main\n\nimport (\n")
	for _, path := range packages {
		fmt.Fprintf(&program, "\t_ %q\n", path)
	}
	program.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), program.Bytes(), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"get", m.path + "@" + version}, {"mod", "tidy"}, {"build", "."}, {"vet", "."}} {
		if err := command(ctx, dir, w.env, "go", args...); err != nil {
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

// takesALock is a test that takes a lock over embedded nodes, and imports every driver.
//
//go:embed consumer.go.txt
var takesALock []byte

// proveTogether builds and runs a program that uses all modules, in these versions.
func (w *workshop) proveTogether(ctx context.Context, who string, versions map[string]string) error {
	dir, err := w.consumer(ctx)
	if err != nil {
		return err
	}
	core := w.modules[0].path
	text := bytes.ReplaceAll(w.program, []byte("MODULE"), []byte(core))
	if err := os.WriteFile(filepath.Join(dir, "lock_test.go"), text, 0o600); err != nil {
		return err
	}
	get := []string{"get"}
	for path, version := range versions {
		get = append(get, path+"@"+version)
	}
	for _, args := range [][]string{get, {"mod", "tidy"}, {"vet", "."}, {"test", "-count=1", "."}} {
		if err := command(ctx, dir, w.env, "go", args...); err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
	}
	chosen, err := output(ctx, dir, w.env, "go", "list", "-m", "-f", "{{.Version}}", core)
	if err != nil {
		return err
	}
	fmt.Printf("%s take a lock, over %s of the core, with %d lines in go.sum\n", who, chosen, sums(dir))
	return nil
}

// proveMixed lets users have the core and the rest in two versions.
func (w *workshop) proveMixed(ctx context.Context, older, newer string) error {
	var failures []error
	for _, mix := range []struct{ who, core, rest string }{
		{"an older core and newer drivers", older, newer},
		{"a newer core and older drivers", newer, older},
	} {
		versions := map[string]string{}
		for i, m := range w.modules {
			versions[m.path] = mix.rest
			if i == 0 && mix.core == newer { // an older one is lifted to what the drivers require
				versions[m.path] = newer
			}
		}
		failures = append(failures, w.proveTogether(ctx, mix.who, versions))
	}
	return errors.Join(failures...)
}

// vet looks at what is in a module's zip, tests and examples included.
func (w *workshop) vet(ctx context.Context, m *module, version string) error {
	escaped, err := modpath.EscapePath(m.path)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(w.dir, "vet-")
	if err != nil {
		return err
	}
	archive, err := zip.OpenReader(filepath.Join(w.proxy, filepath.FromSlash(escaped), "@v", version+".zip"))
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }()
	if err := os.CopyFS(dir, archive); err != nil {
		return err
	}
	return command(ctx, filepath.Join(dir, filepath.FromSlash(m.path)+"@"+version), w.env, "go", "vet", "./...")
}
