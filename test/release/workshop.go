package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// goFlags are for a cache of modules that is thrown away. With -trimpath Go compiles others' modules
// once, wherever they lie; without DWARF, which only a debugger reads, in an eighth less time.
const goFlags = "-modcacherw -trimpath -gcflags=all=-dwarf=false"

// A workshop is a copy of the repository, with what is not committed, and a proxy of files
// that serves versions of its modules which nobody else has.
type workshop struct {
	root    string // of the repository
	dir     string // all below goes with it
	tree    string // the copy
	proxy   string
	modules []*module
	private []*module           // nobody gets them; they require the others
	fresh   []*module           // the last version has none of them, see serveLast
	env     []string            // for go, as a user has it who knows our proxy
	program string              // a test that uses all modules, below the copy
	clients map[string][]string // what modules are made for, see clients
}

func newWorkshop(ctx context.Context, root string) (w *workshop, err error) {
	dir, err := os.MkdirTemp("", "quorumlock-release-")
	if err != nil {
		return nil, err
	}
	w = &workshop{root: root, dir: dir, tree: filepath.Join(dir, "tree"), proxy: filepath.Join(dir, "proxy"), program: "test/release/consumer.go.txt", clients: clients}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	if err := command(ctx, dir, nil, "git", "clone", "--quiet", "-c", "commit.gpgsign=false", root, w.tree); err != nil {
		return nil, err
	}
	for _, key := range []string{"user.name", "user.email"} {
		value, _ := output(ctx, root, nil, "git", "config", key) // not set: good enough for what is thrown away
		if value == "" {
			value = "rehearsal"
		}
		if err := command(ctx, w.tree, nil, "git", "config", key, value); err != nil {
			return nil, err
		}
	}
	if err := w.adopt(ctx); err != nil {
		return nil, err
	}
	if w.modules, w.private, err = readModules(w.tree); err != nil {
		return nil, err
	}
	usual, err := output(ctx, root, nil, "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, err := output(ctx, root, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	// A path that no proxy has is not looked for at a forge, which would take minutes.
	usual = strings.TrimSuffix(usual, ",direct")
	core := w.modules[0].path
	w.env = []string{
		"GOWORK=off", "GOFLAGS=-mod=mod " + goFlags, "GOMODCACHE=" + filepath.Join(dir, "cache"),
		// Only what is ours is new; what others published is the same from any cache.
		"GOPROXY=file://" + w.proxy + ",file://" + filepath.Join(cache, "cache", "download") + "," + usual,
		"GONOSUMDB=" + core + "," + core + "/*",
	}
	return w, nil
}

// adopt commits to the copy what is not committed in the repository, which a release has
// none of.
func (w *workshop) adopt(ctx context.Context) error {
	dirty, err := output(ctx, w.root, nil, "git", "status", "--porcelain")
	if err != nil || dirty == "" {
		return err
	}
	fmt.Println("what is not committed here is in it, too")
	err = command(ctx, w.root, nil, "git", "--git-dir="+filepath.Join(w.tree, ".git"), "--work-tree="+w.root, "add", "-A")
	if err != nil {
		return err
	}
	if err := command(ctx, w.tree, nil, "git", "commit", "--quiet", "-m", "what was not committed"); err != nil {
		return err
	}
	return command(ctx, w.tree, nil, "git", "reset", "--quiet", "--hard")
}

func (w *workshop) close() { _ = os.RemoveAll(w.dir) }

// publish makes one commit in the copy, whose modules require each other by the version and
// have the right sums, and serves them.
func (w *workshop) publish(ctx context.Context, version string) error {
	for _, m := range slices.Concat(w.modules, w.private) {
		if err := m.require(w.tree, version); err != nil {
			return err
		}
	}
	if err := command(ctx, w.tree, nil, "git", "commit", "--quiet", "--allow-empty", "-am", version); err != nil {
		return err
	}
	for _, m := range w.modules {
		if len(m.needs) > 0 {
			if err := command(ctx, filepath.Join(w.tree, m.dir), w.env, "go", "mod", "tidy"); err != nil {
				return err
			}
			if err := command(ctx, w.tree, nil, "git", "add", "-A"); err != nil { // its first go.sum is new
				return err
			}
			if err := command(ctx, w.tree, nil, "git", "commit", "--quiet", "--amend", "--no-edit", "--allow-empty"); err != nil {
				return err
			}
		}
		if err := w.serve(ctx, m, "HEAD", version); err != nil {
			return err
		}
	}
	return nil
}

// served is the proxy's folder of a module.
func (w *workshop) served(m *module) string {
	escaped, err := modpath.EscapePath(m.path)
	if err != nil {
		panic(err) // go has read it in a go.mod
	}
	return filepath.Join(w.proxy, filepath.FromSlash(escaped), "@v")
}

// serve puts the module as it is in a commit before the proxy's users.
func (w *workshop) serve(ctx context.Context, m *module, revision, version string) error {
	folder := w.served(m)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := zip.CreateFromVCS(&archive, modpath.Version{Path: m.path, Version: version}, w.tree, revision, m.dir); err != nil {
		return err
	}
	mod, err := output(ctx, w.tree, nil, "git", "show", revision+":"+path.Join(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	list, _ := os.ReadFile(filepath.Join(folder, "list")) //nolint:gosec // not there yet: the first version
	for name, text := range map[string][]byte{
		"list":            append(list, version+"\n"...),
		version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339)),
		version + ".mod":  []byte(mod + "\n"), // as output has trimmed it
		version + ".zip":  archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program in a folder. What it says is in the error if it fails.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	_, err := output(ctx, dir, env, name, args...)
	return err
}

// output is what the program has written.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git and go
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var said, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, said.String(), complaint.String())
	}
	return strings.TrimSpace(said.String()), nil
}
