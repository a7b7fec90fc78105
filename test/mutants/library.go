package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A library is the source that mutants change, wherever in it a declaration stands.
type library struct {
	root  string
	files map[string]string // by their paths below the root: Go without tests, and what is embedded
	decls []declaration
}

// A declaration is a function, or one type, constant or variable.
type declaration struct {
	name     string // as package.function or package.type.method
	file     string
	from, to int    // in the file
	suite    *suite // the tests of its package; nil: it has none
}

// load reads those packages, and what they import of their own module.
func load(ctx context.Context, root string, packages ...string) (*library, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-json=Dir,Name,GoFiles,EmbedFiles,TestGoFiles,XTestGoFiles,Module"}, packages...)...) //nolint:gosec // no part is from outside
	cmd.Dir, cmd.Stderr = root, os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %v: %w", packages, err)
	}
	l := &library{root: root, files: make(map[string]string)}
	for list := json.NewDecoder(strings.NewReader(string(listed))); ; {
		var p struct {
			Dir, Name                                      string
			GoFiles, EmbedFiles, TestGoFiles, XTestGoFiles []string
			Module                                         *struct{ Main bool }
		}
		switch err := list.Decode(&p); {
		case errors.Is(err, io.EOF):
			return l, nil
		case err != nil:
			return nil, err
		case p.Module == nil || !p.Module.Main:
			continue
		}
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		var tests *suite
		if len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 {
			tests = &suite{pkg: "./" + filepath.ToSlash(folder)}
		}
		for _, name := range slices.Concat(p.GoFiles, p.EmbedFiles) {
			if err := l.read(filepath.Join(folder, name), p.Name, tests); err != nil {
				return nil, err
			}
		}
	}
}

// read adds a file, and what it declares.
func (l *library) read(file, pkg string, tests *suite) error {
	text, err := os.ReadFile(filepath.Join(l.root, file)) //nolint:gosec // go list has named it
	if err != nil {
		return err
	}
	l.files[file] = string(text)
	if filepath.Ext(file) != ".go" {
		l.decls = append(l.decls, declaration{filepath.Base(file), file, 0, len(text), tests})
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	add := func(name string, n ast.Node) {
		from, to := int(n.Pos()-parsed.FileStart), int(n.End()-parsed.FileStart)
		l.decls = append(l.decls, declaration{pkg + "." + name, file, from, to, tests})
	}
	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(receiver(d)+d.Name.Name, d)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, s)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name.Name, s)
					}
				}
			}
		}
	}
	return nil
}

// receiver returns the type of a method and a dot.
func receiver(f *ast.FuncDecl) (name string) {
	if f.Recv != nil {
		ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && name == "" {
				name = id.Name + "."
			}
			return name == ""
		})
	}
	return name
}

// find returns the one declaration of that name, with its package or without. One that was
// exported is found as well, for that is what a move to another package does to it.
func (l *library) find(name string) (*declaration, error) {
	for _, fold := range []func(string) string{strings.Clone, strings.ToLower} {
		var found []string
		var last *declaration
		for i, d := range l.decls {
			_, bare, _ := strings.Cut(d.name, ".")
			if fold(d.name) == fold(name) || fold(bare) == fold(name) {
				found, last = append(found, d.name), &l.decls[i]
			}
		}
		switch {
		case len(found) == 1:
			return last, nil
		case len(found) > 1:
			return nil, fmt.Errorf("%q may be %s: write more of the name", name, strings.Join(found, " or "))
		}
	}
	return nil, fmt.Errorf("the library has no %q: has it another name now?", name)
}
