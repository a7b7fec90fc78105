package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A library is the source that mutants change, wherever in it a declaration stands.
type library struct {
	root  string
	files map[string]string // by their paths below the root
	decls []declaration
}

// A declaration is a function, or a script.
type declaration struct {
	name     string // as package.function or package.type.method; a script's file
	file     string
	from, to int // in the file
}

// load reads all packages in the folders.
func load(root string, folders ...string) (*library, error) {
	l := &library{root: root, files: make(map[string]string)}
	for _, folder := range folders {
		err := fs.WalkDir(os.DirFS(root), folder, func(path string, _ fs.DirEntry, err error) error {
			dir, name := filepath.Split(path)
			switch filepath.Ext(name) {
			case ".go":
				fits, _ := build.Default.MatchFile(filepath.Join(root, dir), name)
				if fits && !strings.HasSuffix(name, "_test.go") {
					err = l.read(path)
				}
			case ".lua":
				err = l.read(path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return l, nil
}

// read adds a file, and what it declares.
func (l *library) read(file string) error {
	text, err := fs.ReadFile(os.DirFS(l.root), file)
	if err != nil {
		return err
	}
	l.files[file] = string(text)
	if filepath.Ext(file) != ".go" {
		l.decls = append(l.decls, declaration{filepath.Base(file), file, 0, len(text)})
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name := parsed.Name.Name + "." + receiver(f) + f.Name.Name
			l.decls = append(l.decls, declaration{name, file, int(f.Pos() - parsed.FileStart), int(f.End() - parsed.FileStart)})
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

// find returns the one declaration of that name, with its package or without.
func (l *library) find(name string) (*declaration, error) {
	var found []*declaration
	for i, d := range l.decls {
		if _, bare, _ := strings.Cut(d.name, "."); d.name == name || bare == name {
			found = append(found, &l.decls[i])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("the library has %d declarations %q, want one", len(found), name)
	}
	return found[0], nil
}
