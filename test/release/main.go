// Command release makes a version of all modules that users get: one version, one commit,
// one push. It pushes nothing.
//
//	go run ./test/release -boundaries       # what users of each module carry
//	go run ./test/release -check            # a version and its consumers, in a copy that is thrown away
//	go run ./test/release v0.1.0            # commit and tags here, and the push to copy
//	go run ./test/release -published v0.1.0 # after the push: what users get is what was proved
//	go run ./test/release -serve            # a version for trying what is here as users do, until Ctrl-C
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
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	boundaries := flags.Bool("boundaries", false, "measure what users of each module carry")
	check := flags.Bool("check", false, "prove that a version can be made of what is here, and make none")
	serve := flags.Bool("serve", false, "serve a version of what is here from files, until Ctrl-C")
	published := flags.Bool("published", false, "compare what the proxies serve with the tags")
	unsearched := flags.Bool("no-vulncheck", false, "make a version although the database of vulnerabilities is out of reach")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	version := flags.Arg(0)
	switch {
	case (*check || *boundaries || *serve) && flags.NArg() > 0:
		return fmt.Errorf("-check, -boundaries and -serve are about no version, so not %q", flags.Args())
	case *serve:
		return lend(ctx, root, os.Stdout)
	case *boundaries:
		return measure(ctx, root)
	case *check:
		return rehearse(ctx, root)
	case semver.Canonical(version) != version || version == "" || flags.NArg() > 1:
		return fmt.Errorf("want a version such as v0.1.0, and not %q", flags.Args())
	case *published:
		return comparePublished(ctx, root, version)
	default:
		missing := database(ctx)
		if missing != nil && !*unsearched {
			return fmt.Errorf("govulncheck cannot look for vulnerabilities: %w (-no-vulncheck does without)", missing)
		}
		return release(ctx, root, version, missing)
	}
}

// release makes the commit and the tags of a version. Vulnerabilities are not looked for if
// what that takes is missing.
func release(ctx context.Context, root, version string, missing error) error {
	if err := ready(ctx, root, version); err != nil {
		return err
	}
	w, err := newWorkshop(ctx, root)
	if err != nil {
		return err
	}
	defer w.close()
	last, err := w.serveLast(ctx)
	if err != nil {
		return err
	}
	if err := w.publish(ctx, version); err != nil {
		return err
	}
	if err := errors.Join(w.measure(ctx, version), w.prove(ctx, version)); err != nil {
		return err
	}
	if w.complete(last) {
		if err := w.proveMixed(ctx, last, version); err != nil {
			return err
		}
	}
	if err := errors.Join(w.compare(ctx, last, version), w.vulnerabilities(ctx, missing)); err != nil {
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
	if _, err := output(ctx, root, nil, "git", "var", "GIT_COMMITTER_IDENT"); err != nil {
		return err
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
	if !strings.Contains(string(changes), "\n## "+version+"\n") {
		return fmt.Errorf("CHANGELOG.md has no section \"## %s\": write what users will see", version)
	}
	return nil
}

// published is a workshop with a version that is made of what is here. It is to be closed.
func published(ctx context.Context, root string) (w *workshop, version string, err error) {
	if w, err = newWorkshop(ctx, root); err != nil {
		return nil, "", err
	}
	if version, _, err = w.free(ctx); err == nil {
		err = w.publish(ctx, version)
	}
	if err != nil {
		w.close()
	}
	return w, version, err
}

// measure says what users of a version would carry that is made of what is here.
func measure(ctx context.Context, root string) error {
	w, version, err := published(ctx, root)
	if err != nil {
		return err
	}
	defer w.close()
	return w.measure(ctx, version)
}

// lend serves the next version from files until ctx ends, and says how to get it.
func lend(ctx context.Context, root string, out io.Writer) error {
	w, version, err := published(ctx, root)
	if err != nil {
		return err
	}
	defer w.close()
	lines := version + " of what is here is served until Ctrl-C. To get it, in an empty folder:\n\n"
	for _, variable := range w.env {
		lines += "export '" + variable + "'\n"
	}
	_, err = io.WriteString(out, lines)
	<-ctx.Done()
	return err
}

// rehearse makes the next version in a copy, and proves it alone and mixed with the last
// one; before there is one, with another of the same code.
func rehearse(ctx context.Context, root string) error {
	w, err := newWorkshop(ctx, root)
	if err != nil {
		return err
	}
	defer w.close()
	last, err := w.serveLast(ctx)
	if err != nil {
		return err
	}
	older, newer, err := w.free(ctx)
	if err != nil {
		return err
	}
	if w.complete(last) {
		older = last
	} else if err := w.publish(ctx, older); err != nil {
		return err
	}
	if err := w.publish(ctx, newer); err != nil {
		return err
	}
	return errors.Join(w.prove(ctx, newer), w.proveMixed(ctx, older, newer), w.compare(ctx, last, newer),
		w.vulnerabilities(ctx, database(ctx)))
}

// free are two versions that do not exist yet: the next patch and the next minor one, above
// what is tagged and what the modules require.
func (w *workshop) free(ctx context.Context) (patch, minor string, err error) {
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
	var x, y, z int
	_, _ = fmt.Sscanf(semver.Canonical(last), "v%d.%d.%d", &x, &y, &z) // none: all are 0
	return fmt.Sprintf("v%d.%d.%d", x, y, z+1), fmt.Sprintf("v%d.%d.0", x, y+1), nil
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
