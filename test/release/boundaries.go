package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	modpath "golang.org/x/mod/module"
)

// clients are the packages that a module is made for, by its folder. Users carry them and
// what they need, and nothing else.
var clients = map[string][]string{
	"adapters":        {"github.com/go-co-op/gocron/v2", "github.com/robfig/cron/v3"},
	"driver/goredis":  {"github.com/redis/go-redis/v9"},
	"driver/redigo":   {"github.com/gomodule/redigo/redis"},
	"driver/rueidis":  {"github.com/redis/rueidis"},
	"driver/valkeygo": {"github.com/valkey-io/valkey-go"},
	"cmd/quorumlock":  {"github.com/redis/go-redis/v9/logging", "github.com/spf13/cobra", "github.com/spf13/cobra/doc", "github.com/spf13/pflag", "golang.org/x/sys/unix", "golang.org/x/term"},
	"otelredlock":     {"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace"},
	"redlocktest":     {"github.com/alicebob/miniredis/v2", "github.com/alicebob/miniredis/v2/server"},
}

// forCommand are packages of the core that only the command is made for.
var forCommand = []string{"/internal/inspect", "/internal/supervise"}

// bare is the only module that every module may require, for it requires none.
const bare = "golang.org/x/sync"

// measure checks what users of a version carry: the core needs the standard library, every
// other module its client besides, and none what another one may change.
func (w *workshop) measure(ctx context.Context, version string) error {
	var failures []error
	for _, m := range w.modules {
		dir, err := w.unpack(m, version)
		if err != nil {
			return err
		}
		failures = append(failures, w.carries(ctx, m, dir), w.requires(m, dir), w.keepsOut(ctx, m, dir))
		if m == w.modules[0] {
			continue
		}
		if dir, err = w.consumerOf(ctx, version, w.modules[0], m); err != nil {
			return err
		}
		failures = append(failures, w.carries(ctx, m, dir))
		fmt.Printf("a consumer of the core and %s has %d lines in go.sum\n", m.dir, sums(dir))
	}
	return errors.Join(failures...)
}

// carries says what packages in a folder need that is neither ours nor of the module's clients.
func (w *workshop) carries(ctx context.Context, m *module, dir string) error {
	needed, err := w.deps(ctx, dir, "./...")
	if err != nil {
		return err
	}
	var known []string
	if packages := w.clientsOf(m); len(packages) > 0 {
		if known, err = w.deps(ctx, dir, packages...); err != nil {
			return err
		}
	}
	extra := slices.DeleteFunc(needed, func(path string) bool {
		return inside(path, bare) || inside(path, w.modules[0].path) || slices.Contains(known, path)
	})
	if len(extra) > 0 {
		return fmt.Errorf("users of %s carry %s", m.path, strings.Join(extra, " "))
	}
	return nil
}

// clientsOf are those of a module, and of what it requires.
func (w *workshop) clientsOf(m *module) (packages []string) {
	for _, each := range w.modules {
		if each == m || slices.ContainsFunc(m.needs, func(v modpath.Version) bool { return v.Path == each.path }) {
			packages = append(packages, w.clients[each.dir]...)
		}
	}
	return packages
}

// deps are the packages of other modules, beyond the standard library, that packages need.
func (w *workshop) deps(ctx context.Context, dir string, packages ...string) ([]string, error) {
	args := append([]string{"list", "-deps", "-f", "{{if not (or .Standard .Module.Main)}}{{.ImportPath}}{{end}}"}, packages...)
	listed, err := output(ctx, dir, w.env, "go", args...)
	return strings.Fields(listed), err
}

// requires says what a go.mod asks for by itself that is neither ours nor a client.
func (w *workshop) requires(m *module, dir string) error {
	file, err := readMod(dir)
	if err != nil {
		return err
	}
	for _, r := range file.Require {
		client := slices.ContainsFunc(w.clientsOf(m), func(path string) bool { return inside(path, r.Mod.Path) })
		if !r.Indirect && !client && r.Mod.Path != bare && !inside(r.Mod.Path, w.modules[0].path) {
			return fmt.Errorf("%s requires %s", m.path, r.Mod.Path)
		}
	}
	return nil
}

// keepsOut says which packages import outside of tests what is for tests (the suite of drivers
// may), or what is internal to another module: users may have the two in two versions. The command is no user's library, and
// requires the core of its own version: it may import [forCommand].
func (w *workshop) keepsOut(ctx context.Context, m *module, dir string) error {
	listed, err := output(ctx, dir, w.env, "go", "list", "-f", `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`, "./...")
	if err != nil {
		return err
	}
	core := w.modules[0].path
	var failures []error
	for line := range strings.Lines(listed) {
		who, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case inside(what, core+"/test") && !inside(who, core+"/test") && !inside(who, core+"/driver/drivertest"):
			failures = append(failures, fmt.Errorf("%s imports %s outside of tests", who, what))
		case inside(who, core+"/cmd") && slices.Contains(forCommand, strings.TrimPrefix(what, core)):
		case inside(what, core) && !inside(what, m.path) && strings.Contains(what+"/", "/internal/"):
			failures = append(failures, fmt.Errorf("%s imports %s, which another version may not have", who, what))
		}
	}
	return errors.Join(failures...)
}
