package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheTableFitsTheLibrary(t *testing.T) {
	l, err := quorumlock(t.Context())
	must(t, err)
	check, names := newChecker(t, l), make(map[string]bool)
	for _, m := range table() {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		files, err := m.files(l)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		for name, text := range files {
			if filepath.Ext(name) == ".go" {
				check.types(t, m.name, name, text)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A checker knows what a compiler would say to another text of one file. It is fast because
// it has left out the other files' functions.
type checker struct {
	fset     *token.FileSet
	files    map[string]*ast.File // by their paths
	importer types.Importer
}

func newChecker(t *testing.T, l *library) *checker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)...) //nolint:gosec // no part is from outside
	cmd.Dir, cmd.Stderr = l.root, os.Stderr
	listed, err := cmd.Output()
	must(t, err)
	compiled := make(map[string]string)
	for line := range strings.Lines(string(listed)) {
		pkg, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[pkg] = file
	}
	c := &checker{fset: token.NewFileSet(), files: make(map[string]*ast.File)}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) })
	stub := &ast.BlockStmt{List: []ast.Stmt{&ast.ExprStmt{X: &ast.CallExpr{Fun: ast.NewIdent("panic"), Args: []ast.Expr{ast.NewIdent("nil")}}}}}
	for name, text := range l.files {
		if filepath.Ext(name) == ".go" {
			file := c.parse(t, name, text)
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					f.Body = stub
				}
			}
			c.files[name] = file
		}
	}
	return c
}

func (c *checker) parse(t *testing.T, name, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
	must(t, err)
	return file
}

func (c *checker) types(t *testing.T, mutant, name, text string) {
	t.Helper()
	files := []*ast.File{c.parse(t, name, text)}
	for other, file := range c.files {
		if other != name && filepath.Dir(other) == filepath.Dir(name) {
			files = append(files, file)
		}
	}
	config := types.Config{Importer: c.importer, Error: func(err error) {
		if e := err.(types.Error); c.fset.File(e.Pos).Name() == name { //nolint:errorlint,forcetypeassert // it is one, by its doc
			t.Errorf("%s: %v", mutant, err)
		}
	}}
	_, _ = config.Check(files[0].Name.Name, c.fset, files, nil)
}

// Nodes know a script by its digest, and the compiled digest would be that of the right one.
func TestAScriptThatIsChangedChangesItsDigest(t *testing.T) {
	l, err := quorumlock(t.Context())
	must(t, err)
	for file, edit := range map[string]edits{
		"hold.lua": in("hold.lua", line("return holder and 3 or 2", "return 2")),
		"line.lua": in("line.lua", line("period = 2 * period", "break")), // others begin with it
	} {
		m := mutant{edits: edit}
		files, err := m.files(l)
		must(t, err)
		script, digests := files["internal/scripts/"+file], files["internal/scripts/scripts.go"]
		if file == "line.lua" {
			script += l.files["internal/scripts/take.lua"]
		}
		if want := digest(script); !strings.Contains(digests, want) {
			t.Errorf("the changed script's digest %s is not beside those of the others:\n%s", want, digests)
		}
	}
}

func TestAMutantImportsOnlyWhatItUses(t *testing.T) {
	const text = "package p\n\nimport (\n\t\"math\"\n\t\"net\"\n\t_ \"embed\"\n)\n\nfunc f() (net.IP, float64) { return nil, math.Pi }\n"
	l := &library{files: make(map[string]string), root: t.TempDir()}
	must(t, os.WriteFile(filepath.Join(l.root, "p.go"), []byte(text), 0o600))
	must(t, l.read("p.go", "p", nil))
	for edit, want := range map[string]string{"nil, 3": "_ \"math\"\n\t\"net\"", "nil, math.E": "\t\"math\"\n\t\"net\"", "nil, math.Pi": "changes nothing", "nil,": "no Go"} {
		m := wrong("", in("f", replace("nil, math.Pi", edit)))
		if files, err := m.files(l); err == nil && !strings.Contains(files["p.go"], want) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", edit, files, err, want)
		}
	}
}
