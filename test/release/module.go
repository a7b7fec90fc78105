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
	return inside(dir, "examples") || strings.HasPrefix(dir, "test/")
}

// readModules returns the modules of the workspace: those that users get, each behind those
// that it requires, and the others.
func readModules(root string) (public, others []*module, err error) {
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name) //nolint:gosec // of the repository
	if err != nil {
		return nil, nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, nil, err
	}
	files := map[*module]*modfile.File{}
	var core string
	has := map[string]bool{}
	for _, use := range work.Use {
		dir := strings.TrimPrefix(strings.TrimPrefix(path.Clean(use.Path), "."), "/")
		file, err := readMod(filepath.Join(root, dir))
		if err != nil {
			return nil, nil, err
		}
		m := &module{dir: dir, path: file.Module.Mod.Path}
		files[m] = file
		if dir == "" {
			core = m.path
		}
		if private(dir) {
			others = append(others, m)
			continue
		}
		has[m.path] = true
		public = append(public, m)
	}
	for _, m := range slices.Concat(public, others) {
		for _, r := range files[m].Require {
			if has[r.Mod.Path] {
				m.needs = append(m.needs, r.Mod)
			} else if inside(r.Mod.Path, core) && has[m.path] {
				return nil, nil, fmt.Errorf("%s requires %s, which nobody gets", m.path, r.Mod.Path)
			}
		}
	}
	for _, m := range public {
		if err := m.fit(root, files[m]); err != nil {
			return nil, nil, err
		}
	}
	public, err = inOrder(public)
	return public, others, err
}

// fit says what keeps users from getting the module.
func (m *module) fit(root string, file *modfile.File) error {
	license, err := os.ReadFile(filepath.Join(root, "LICENSE")) //nolint:gosec // of the repository
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(root, m.dir, "LICENSE")) //nolint:gosec // as above
	switch {
	case err != nil || !bytes.Equal(own, license):
		return fmt.Errorf("%s: its zip wants a copy of the root's LICENSE", m.path)
	case len(file.Replace) > 0:
		return fmt.Errorf("%s: users get it without its replace directives: take them out", m.path)
	case m.dir == "" && len(m.needs) > 0:
		return fmt.Errorf("the core requires %s: an arrow goes down only", m.needs[0].Path)
	}
	return nil
}

// inside reports whether a path is a tree's, or below it.
func inside(path, tree string) bool { return path == tree || strings.HasPrefix(path, tree+"/") }

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
