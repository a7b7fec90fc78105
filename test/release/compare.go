package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// The tools, at the versions that were tried.
const (
	gorelease   = "golang.org/x/exp/cmd/gorelease@v0.0.0-20261014143641-f0251eb4aa3e"
	govulncheck = "golang.org/x/vuln/cmd/govulncheck@v1.9.0"
)

// serveLast serves the last version that is tagged, of the modules that it has.
func (w *workshop) serveLast(ctx context.Context) (last string, err error) {
	if last, err = lastVersion(ctx, w.root); last == "" || err != nil {
		return "", err
	}
	for _, m := range w.modules {
		if known, err := output(ctx, w.tree, nil, "git", "tag", "--list", m.tag(last)); err != nil {
			return "", err
		} else if known == "" {
			w.fresh = append(w.fresh, m)
		} else if err := w.serve(ctx, m, m.tag(last), last); err != nil {
			return "", err
		}
	}
	return last, nil
}

// complete reports whether the last version has all modules.
func (w *workshop) complete(last string) bool { return last != "" && len(w.fresh) == 0 }

// compare says how the API of each module differs from that of the last version. Nobody can
// ask for the latest one afterwards.
func (w *workshop) compare(ctx context.Context, last, version string) error {
	if last == "" {
		fmt.Println("APIs: nothing to compare with: no version is tagged here")
		return nil
	}
	var failures []error
	for _, m := range w.modules {
		if slices.Contains(w.fresh, m) {
			fmt.Printf("APIs: %s is new\n", m.path)
			continue
		}
		// gorelease refuses a version that exists already.
		if err := os.WriteFile(filepath.Join(w.served(m), "list"), []byte(last+"\n"), 0o600); err != nil {
			return err
		}
		said, err := output(ctx, filepath.Join(w.tree, m.dir), slices.Concat(w.env, []string{"GOFLAGS=" + goFlags}), "go", "run", gorelease, "-base="+last, "-version="+version)
		if err != nil {
			failures = append(failures, fmt.Errorf("the API of %s since %s: %w", m.path, last, err))
			continue
		}
		fmt.Printf("APIs: %s since %s:\n%s\n", m.path, last, said)
		// Below v1 gorelease lets any version break.
		if strings.Contains(said, "incompatible changes") && semver.MajorMinor(last) == semver.MajorMinor(version) {
			failures = append(failures, fmt.Errorf("%s breaks what users of %s have: that takes a minor version", m.path, last))
		}
	}
	return errors.Join(failures...)
}

// vulnerabilities looks for known ones in what users build, if nothing keeps it from that.
func (w *workshop) vulnerabilities(ctx context.Context, missing error) error {
	if missing != nil {
		fmt.Printf("vulnerabilities: govulncheck did NOT RUN: %v\n", missing)
		return nil
	}
	for _, m := range w.modules {
		said, err := output(ctx, filepath.Join(w.tree, m.dir), w.env, "go", "run", govulncheck, "./...")
		if err != nil {
			return err
		}
		fmt.Printf("vulnerabilities: %s: %s\n", m.path, said)
	}
	return nil
}

// database says why that of vulnerabilities is out of reach, if it is.
func database(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://vuln.go.dev/index/modules.json", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	return nil
}

// comparePublished compares the sums of what the usual proxies serve with those of the tags.
func comparePublished(ctx context.Context, root, version string) error {
	w, err := newWorkshop(ctx, root)
	if err != nil {
		return err
	}
	defer w.close()
	for _, m := range w.modules {
		if err := w.serve(ctx, m, m.tag(version), version); err != nil {
			return err
		}
		var sums [2]string
		usual, err := output(ctx, root, nil, "go", "env", "GOPROXY")
		if err != nil {
			return err
		}
		for i, proxy := range []string{"file://" + w.proxy, usual} {
			cache := filepath.Join(w.dir, fmt.Sprint("published-", i))
			env := slices.Concat(w.env, []string{"GOPROXY=" + proxy, "GOMODCACHE=" + cache})
			if sums[i], err = output(ctx, w.dir, env, "go", "mod", "download", "-json", modpath.Version{Path: m.path, Version: version}.String()); err != nil {
				return err
			}
			sums[i] = line(sums[i], `"Sum"`)
		}
		if sums[0] != sums[1] {
			return fmt.Errorf("%s: the proxy serves %s, and the tag is %s", m.path, sums[1], sums[0])
		}
		fmt.Printf("%s %s is published as it was proved\n", m.path, version)
	}
	return nil
}

// line is the first line of a text that holds a word.
func line(text, word string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			return strings.Trim(line, " \t\n,")
		}
	}
	return ""
}
