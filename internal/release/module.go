package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	modpath "golang.org/x/mod/module"
)

// A module is one that users get.
type module struct {
	dir   string // below the root, with slashes; "" for the root's own
	path  string
	needs []modpath.Version // those of our own modules that it requires
}

// tag is the name of a version's tag.
func (m *module) tag(version string) string { return path.Join(m.dir, version) }

// private reports whether nobody gets the module in a folder.
func private(dir string) bool {
	return dir == "examples" || strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "internal/")
}

// readModules returns the modules of the workspace that users get, each behind those that
// it requires.
func readModules(root string) ([]*module, error) {
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name) //nolint:gosec // of the repository
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE")) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	files := map[string]*modfile.File{}
	var modules []*module
	for _, use := range work.Use {
		dir := strings.TrimPrefix(path.Clean(use.Path), ".")
		dir = strings.TrimPrefix(dir, "/")
		if private(dir) {
			continue
		}
		file, err := readMod(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		if own, err := os.ReadFile(filepath.Join(root, dir, "LICENSE")); err != nil || !bytes.Equal(own, license) { //nolint:gosec // as above
			return nil, fmt.Errorf("%s: its zip wants a copy of the root's LICENSE", file.Module.Mod.Path)
		}
		if len(file.Replace) > 0 {
			return nil, fmt.Errorf("%s: users get it without its replace directives: take them out", file.Module.Mod.Path)
		}
		files[file.Module.Mod.Path] = file
		modules = append(modules, &module{dir: dir, path: file.Module.Mod.Path})
	}
	core := modules[slices.IndexFunc(modules, func(m *module) bool { return m.dir == "" })].path
	for _, m := range modules {
		for _, r := range files[m.path].Require {
			switch {
			case r.Mod.Path != core && !strings.HasPrefix(r.Mod.Path, core+"/"):
			case files[r.Mod.Path] == nil:
				return nil, fmt.Errorf("%s requires %s, which nobody gets", m.path, r.Mod.Path)
			case m.path == core:
				return nil, fmt.Errorf("the core requires %s: an arrow goes down only", r.Mod.Path)
			default:
				m.needs = append(m.needs, r.Mod)
			}
		}
	}
	return inOrder(modules)
}

// inOrder puts each module behind those that it requires.
func inOrder(modules []*module) (ordered []*module, err error) {
	has := map[string]bool{}
	for len(ordered) < len(modules) {
		before := len(ordered)
		for _, m := range modules {
			if !has[m.path] && !slices.ContainsFunc(m.needs, func(v modpath.Version) bool { return !has[v.Path] }) {
				has[m.path] = true
				ordered = append(ordered, m)
			}
		}
		if len(ordered) == before {
			return nil, fmt.Errorf("modules require each other in a circle")
		}
	}
	return ordered, nil
}

func readMod(dir string) (*modfile.File, error) {
	name := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(name) //nolint:gosec // of the repository
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// require sets the versions of our own modules in the go.mod of a folder.
func (m *module) require(root, version string) error {
	dir := filepath.Join(root, m.dir)
	file, err := readMod(dir)
	if err != nil {
		return err
	}
	for _, need := range m.needs {
		if err := file.AddRequire(need.Path, version); err != nil {
			return err
		}
	}
	file.Cleanup()
	text, err := file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644) //nolint:gosec // as git has it
}
