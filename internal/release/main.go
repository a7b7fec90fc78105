// Command release makes a version of all modules that users get: one version, one commit,
// one push. It pushes nothing.
//
//	go run ./internal/release v0.1.0            # commit and tags here, and the push to copy
//	go run ./internal/release -check            # all of it in a copy that is thrown away
//	go run ./internal/release -published v0.1.0 # after the push: what users get is what was proved
//
// The modules require each other's versions, whose sums stand in go.sum before anybody can
// download them. So the tool serves them from files: the core first, then what requires it.
// No module contains another one, so each sum is final when it is needed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	check := flags.Bool("check", false, "prove that a version could be made of the last commit, and make none")
	published := flags.Bool("published", false, "compare what the proxies serve with the tags")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	switch version := flags.Arg(0); {
	case *check && version == "":
		return rehearse(ctx, root)
	case *check || semver.Canonical(version) != version || version == "":
		return fmt.Errorf("want a version such as v0.1.0, or -check alone, and not %q", version)
	case *published:
		return comparePublished(ctx, root, version)
	default:
		return release(ctx, root, version)
	}
}

// release makes the commit and the tags of a version.
func release(ctx context.Context, root, version string) error {
	if err := ready(ctx, root, version); err != nil {
		return err
	}
	w, err := newWorkshop(ctx, root)
	if err != nil {
		return err
	}
	defer w.close()
	if err := w.publish(ctx, version); err != nil {
		return err
	}
	if err := w.prove(ctx, version); err != nil {
		return err
	}
	if err := errors.Join(w.compare(ctx, version), w.vulnerabilities(ctx)); err != nil {
		return err
	}
	if err := command(ctx, root, nil, "git", "pull", "--quiet", "--ff-only", w.tree, "HEAD"); err != nil {
		return err
	}
	tags := []string{}
	for _, m := range w.modules {
		tags = append(tags, m.tag(version))
	}
	for _, tag := range tags {
		if err := command(ctx, root, nil, "git", "tag", "-a", "-m", tag, tag); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s is committed and tagged here. To publish it:\n\n\tgit push --atomic origin HEAD:main %s\n\nand then: make release-published VERSION=%s\n",
		version, strings.Join(tags, " "), version)
	return nil
}

// ready says what keeps the repository from being released.
func ready(ctx context.Context, root, version string) error {
	dirty, err := output(ctx, root, nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		return fmt.Errorf("commit this first, or take it away:\n%s", dirty)
	}
	last, err := lastVersion(ctx, root)
	if err != nil {
		return err
	}
	if last != "" && semver.Compare(version, last) <= 0 {
		return fmt.Errorf("%s is not above %s, the last version", version, last)
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md")) //nolint:gosec // of this repository
	if err != nil {
		return err
	}
	if !strings.Contains(string(changes), "\n## "+version) {
		return fmt.Errorf("CHANGELOG.md has no section \"## %s\": write what users will see", version)
	}
	return nil
}

// rehearse makes the next two versions in a copy, and proves them alone and mixed.
func rehearse(ctx context.Context, root string) error {
	w, err := newWorkshop(ctx, root)
	if err != nil {
		return err
	}
	defer w.close()
	older, newer, err := w.rehearsed(ctx)
	if err != nil {
		return err
	}
	for _, version := range []string{older, newer} {
		if err := w.publish(ctx, version); err != nil {
			return err
		}
	}
	if err := errors.Join(w.prove(ctx, newer), w.proveMixed(ctx, older, newer)); err != nil {
		return err
	}
	if err := w.compare(ctx, newer); err != nil {
		return err
	}
	if !databaseAnswers(ctx) {
		fmt.Println("vulnerabilities: NOT LOOKED FOR: the database is out of reach here; a release looks for them")
		return nil
	}
	return w.vulnerabilities(ctx)
}

// rehearsed are two versions that do not exist yet: the first that is free, and the next.
func (w *workshop) rehearsed(ctx context.Context) (older, newer string, err error) {
	last, err := lastVersion(ctx, w.root)
	if err != nil {
		return "", "", err
	}
	for _, m := range w.modules {
		for _, need := range m.needs {
			if semver.Compare(need.Version, last) > 0 {
				last = need.Version
			}
		}
	}
	if last == "" {
		last = "v0.0.0"
	}
	older = patched(last)
	return older, patched(older), nil
}

// patched is the version with the next patch.
func patched(version string) string {
	var major, minor, patch int
	_, _ = fmt.Sscanf(semver.Canonical(version), "v%d.%d.%d", &major, &minor, &patch) // it is canonical
	return fmt.Sprintf("v%d.%d.%d", major, minor, patch+1)
}

// lastVersion is the greatest version that is tagged, or "".
func lastVersion(ctx context.Context, root string) (last string, err error) {
	tags, err := output(ctx, root, nil, "git", "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	for tag := range strings.FieldsSeq(tags) {
		if semver.IsValid(tag) && (last == "" || semver.Compare(tag, last) > 0) {
			last = tag
		}
	}
	return last, nil
}
