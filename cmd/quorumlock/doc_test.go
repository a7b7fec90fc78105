package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
)

// The commands of the documentation are lines of its blocks of shell.
var (
	shell   = regexp.MustCompile("(?s)```sh\n(.*?)```")
	comment = regexp.MustCompile(`\s+#.*$`)
	word    = regexp.MustCompile(`"[^"]*"|\S+`)
)

// documented finds those of the page for operators that begin with the command's name.
func documented(t *testing.T) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range shell.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			words := word.FindAllString(comment.ReplaceAllString(strings.TrimSpace(line), ""), -1)
			for i := range words {
				words[i] = strings.Trim(words[i], `"`)
			}
			if len(words) > 1 && words[0] == "quorumlock" {
				all = append(all, words[1:])
			}
		}
	}
	return all
}

// Each command of the page for operators does what the page says of it, on nodes of the test's own.
func TestTheCommandsOfTheDocumentationRun(t *testing.T) {
	t.Parallel()
	all := documented(t)
	if len(all) < 8 {
		t.Fatalf("docs/operations.md has %d commands: %q", len(all), all)
	}
	s := newSite(t, 3, longLease)
	profile := file(t, "prod.conf", "nodes = "+strings.Join(s.urls, ", ")+"\nprefix = "+prefix+"\nttl = 1m\n")
	for _, words := range all {
		s.all("FLUSHALL")
		lock, err := s.locker.TryAcquire(s.ctx(), "orders:42", redlock.WithOwner("pod-7"))
		if err != nil {
			t.Fatal(err)
		}
		args, want := slices.Clone(words), []int{exitOK}
		for i, arg := range args {
			switch {
			case arg == "prod":
				args[i] = profile
			case strings.HasPrefix(arg, "redis://10."):
				args[i] = strings.Join(s.urls, ",")
			}
		}
		ctx := t.Context()
		switch {
		case args[0] == "doctor": // of servers that share this machine, and have nothing set
			want = []int{exitOK, 1, 2, 3}
		case slices.Contains(args, "--watch"):
			var cancel context.CancelCauseFunc
			ctx, cancel = context.WithCancelCause(ctx)
			stop := time.AfterFunc(time.Second, func() { cancel(interrupted(syscall.SIGINT)) })
			defer stop.Stop()
			want = []int{130}
		case args[0] == "release" && !slices.Contains(args, "--force"):
			want = []int{exitOK, exitUsage, 1, 75}
		}
		got := runIn(ctx, t, nil, args...)
		if !slices.Contains(want, got.code) || strings.Contains(got.talk, "unknown") {
			t.Errorf("quorumlock %q = %d, want one of %v: %s\n%s", words, got.code, want, got.talk, got.out)
		}
		_ = lock.Release() // it may be taken away
	}
}
