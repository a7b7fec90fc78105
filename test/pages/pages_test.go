// Package pages tests what the pages of the documentation say: their code, their links and their
// length.
package pages

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/test/redisserver"
)

// root is the repository's.
const root = "../.."

func read(t testing.TB, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page)) //nolint:gosec // of the repository
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A folder is an empty one of a reader's, into which he pastes blocks. It is in the tree, so that the
// workspace has the modules that the blocks import, under a name that ./... leaves out.
type folder struct {
	*testing.T
	path string
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	path, err := os.MkdirTemp(".", "_pasted-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	return &folder{t, path}
}

func (f *folder) paste(name, text string) {
	f.Helper()
	if err := os.WriteFile(filepath.Join(f.path, name), []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// run runs a command of go on the folder's package.
func (f *folder) run(args ...string) {
	f.Helper()
	f.execute("go", append(args, f.path)...)
}

func (f *folder) execute(name string, args ...string) string {
	f.Helper()
	out, err := exec.CommandContext(f.Context(), name, args...).CombinedOutput() //nolint:gosec // go, and what it has built
	if err != nil {
		f.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

var (
	code = regexp.MustCompile("(?s)\n```go\n(.*?)\n```\n")
	file = regexp.MustCompile(`^// (\w+\.go)\n`)
)

// Of a page whose blocks are files, each block compiles once those before it stand in the folder.
func pasteAll(t *testing.T, page string) *folder {
	t.Helper()
	f := newFolder(t)
	for _, block := range code.FindAllStringSubmatch(read(t, page), -1) {
		name := file.FindStringSubmatch(block[1])
		if name == nil {
			t.Fatalf("%s: the first line of this block is no comment with a file's name:\n%s", page, block[1])
		}
		f.paste(name[1], block[1]+"\n")
		f.run("vet")
	}
	return f
}

func TestTheGuideWorksWhenPasted(t *testing.T) {
	t.Parallel()
	var urls []string
	for range 3 {
		urls = append(urls, "redis://"+redisserver.Start(t).Addr)
	}
	f := pasteAll(t, "docs/guide.md")
	program, tests := filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "tests")
	f.run("build", "-o", program)
	f.run("test", "-c", "-o", tests)
	if said := f.execute(tests, "-test.v"); strings.Count(said, "--- PASS") != 1 {
		t.Errorf("the guide's test says:\n%s", said)
	}
	// On a machine that is busy enough the nodes answer too late for the guide's time-outs, and the
	// program ends with an error. It is started anew until they do.
	for tries := 1; ; tries++ {
		command := exec.CommandContext(t.Context(), program) //nolint:gosec // the guide's
		command.Env = append(os.Environ(), "LOCK_NODES="+strings.Join(urls, " "))
		said, err := command.Output()
		if err == nil && string(said) == "alone with orders:42\n" {
			break
		}
		if failed := new(exec.ExitError); tries == 100 || !errors.As(err, &failed) {
			t.Fatalf("the guide's program says %q: %v\n%s", said, err, failed.Stderr)
		}
	}
}

func TestTheRecipesRun(t *testing.T) {
	t.Parallel()
	f := pasteAll(t, "docs/recipes.md")
	f.paste("main.go", "package main\n\nfunc main() {}\n")
	f.paste("recipes_test.go", read(t, "test/pages/testdata/recipes_test.go.txt"))
	f.run("test", "-count=1")
}

func TestTheServiceBeforeAndAfterCompiles(t *testing.T) {
	t.Parallel()
	f := pasteAll(t, "docs/from-redsync.md")
	for _, name := range []string{"before.go", "after.go"} {
		if _, err := os.Stat(filepath.Join(f.path, name)); err != nil {
			t.Error(err)
		}
	}
}

// The blocks of README are parts of functions. What they take from the program around them is here.
const around = `package main

import (
	"context"
	"testing"

	"github.com/quorumlock/quorumlock/redlock"
)

func main() {}

var (
	locker  *redlock.Locker
	ctx     context.Context
	t       *testing.T
	order   string
	settle  func(ctx context.Context, order string) error
	errBusy error
)
`

func TestTheCodeOfTheREADMECompiles(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.paste("around.go", around)
	blocks := code.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) < 3 {
		t.Errorf("README.md has %d blocks of code", len(blocks))
	}
	for i, block := range blocks {
		var imports string
		for _, path := range []string{
			"context", "errors", "log/slog", "time", "github.com/quorumlock/quorumlock/driver/goredis",
			"github.com/quorumlock/quorumlock/redlock", "github.com/quorumlock/quorumlock/redlocktest",
		} {
			if regexp.MustCompile(`\b` + filepath.Base(path) + `\.[A-Z]`).MatchString(block[1]) {
				imports += fmt.Sprintf("import %q\n", path)
			}
		}
		text := "package main\n\n" + imports + "\nfunc _() error {\n" + block[1]
		if lines := strings.Split(block[1], "\n"); !strings.HasPrefix(lines[len(lines)-1], "return ") {
			text += "\nreturn nil"
		}
		f.paste(fmt.Sprintf("block%d.go", i), text+"\n}\n")
		f.run("vet")
	}
}

// pages are all files of Markdown in the repository.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var (
	fenced  = regexp.MustCompile("(?s)\n```.*?\n```\n")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, "\n"), -1) {
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	links := 0
	for _, page := range pages(t) {
		for _, l := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), "\n"), -1) {
			target, ours := strings.CutPrefix(l[1], "https://github.com/quorumlock/quorumlock/blob/main/")
			if strings.Contains(target, "://") {
				continue
			}
			links++
			target, anchor, _ := strings.Cut(target, "#")
			switch {
			case target == "":
				target = page
			case !ours:
				target = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s leads to %s, which is not there", page, l[1])
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s leads to %s, and there is no such heading", page, l[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("the pages have %d links, so the test looks at too little", links)
	}
}

// Pages name tests by which a claim can be checked.
func TestTestsThatPagesNameAreThere(t *testing.T) {
	t.Parallel()
	there, defined := map[string]bool{}, regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "_test.go") && err == nil {
			for _, name := range defined.FindAllStringSubmatch(read(t, path), -1) {
				there[name[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range pages(t) {
		for _, name := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(read(t, page), -1) {
			if named++; !there[name[1]] {
				t.Errorf("%s names %s, and there is no such test", page, name[1])
			}
		}
	}
	if named < 100 {
		t.Errorf("the pages name %d tests, so this one looks at too little", named)
	}
}

// Who decides whether to use the library has ten minutes.
func TestPagesThatAreReadFirstAreShort(t *testing.T) {
	t.Parallel()
	for page, most := range map[string]int{"README.md": 1000, "docs/guide.md": 1300} {
		if words := len(strings.Fields(read(t, page))); words > most {
			t.Errorf("%s has %d words, and may have %d", page, words, most)
		}
	}
}

// mostNames are the exported names that package redlock may have, and mostOfAll those of all packages that a program may import.
const mostNames, mostOfAll = 80, 200

func TestEachNameOfTheAPIHasAReason(t *testing.T) {
	t.Parallel()
	page, all := read(t, "docs/api.md"), 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return err
		case path != root && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"internal", "test", "examples", "cmd"}, entry.Name())):
			return filepath.SkipDir
		}
		names := exported(t, path)
		if all += len(names); path != filepath.Join(root, "redlock") {
			return nil
		}
		for name := range names {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/api.md does not say why redlock.%s is there", name)
			}
		}
		if len(names) > mostNames || len(names) < mostNames/2 {
			t.Errorf("package redlock has %d exported names, and may have %d", len(names), mostNames)
		}
		return nil
	})
	if err != nil || all > mostOfAll || all < mostOfAll/2 {
		t.Errorf("all packages together have %d exported names, and may have %d (%v)", all, mostOfAll, err)
	}
}

// exported returns the exported names of the package in a folder, on any system, but for methods.
func exported(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	add := func(all ...*ast.Ident) {
		for _, name := range all {
			if name.IsExported() {
				names[name.Name] = true
			}
		}
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add(s.Name)
					case *ast.ValueSpec:
						add(s.Names...)
					}
				}
			}
		}
	}
	return names
}
