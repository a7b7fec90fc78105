package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// runInBubble runs the program in virtual time, over embedded nodes without sockets.
func runInBubble(t *testing.T, args ...string) (seen *journal) {
	t.Helper()
	seen = new(journal)
	synctest.Test(t, func(t *testing.T) {
		embedded := redlocktest.StartInBubble(t, 5)
		connect := func(string, []string) ([]driver.Node, error) { return embedded.Drivers(), nil }
		var out bytes.Buffer
		args := append([]string{"--nodes", strings.Join(embedded.Addrs(), ",")}, args...)
		if err := run(t.Context(), &out, args, connect); err != nil {
			t.Fatalf("run %q = %v, after:\n%s", args, err, &out)
		}
		_, last, _ := strings.Cut(out.String(), "\n")
		if _, err := fmt.Sscanf(last, "They read %d times, up to %d at once, and the operator changed it %d times: %d", &seen.reads, &seen.crowd, &seen.changes, &seen.torn); err != nil {
			t.Fatalf("run %q does not print what was seen, but\n%s", args, &out)
		}
	})
	return seen
}

func TestUnderTheLockAllReadAtOnceAndNothingIsTorn(t *testing.T) {
	seen := runInBubble(t, "--for", "500ms")
	if seen.torn != 0 || seen.crowd != 8 || seen.reads < 200 || seen.changes < 2 {
		t.Errorf("eight services read %d times, up to %d at once, beside %d changes, and %d reads were torn", seen.reads, seen.crowd, seen.changes, seen.torn)
	}
}

func TestWithoutTheLockReadsAreTorn(t *testing.T) {
	if seen := runInBubble(t, "--for", "500ms", "--no-lock"); seen.torn == 0 || seen.changes < 2 {
		t.Errorf("beside %d changes no read was torn", seen.changes)
	}
}

func TestWithEachClient(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		var out bytes.Buffer
		err := run(t.Context(), &out, []string{"--client", client, "--services", "3", "--for", "300ms"}, nodes.Connect)
		if err != nil || !strings.Contains(out.String(), "0 reads had the address of one version and the password of another") {
			t.Errorf("%s: run = %v, and prints\n%s", client, err, &out)
		}
	}
}

func TestTheProgramFailsWhereItsStoryIsNotTrue(t *testing.T) {
	for _, tt := range []struct {
		torn   int
		noLock bool
		want   string // "": no error
	}{
		{0, false, ""},
		{1, false, "the lock let somebody read"},
		{1, true, ""},
		{0, true, "by luck"},
	} {
		seen := &journal{torn: tt.torn}
		err := seen.judge(io.Discard, tt.noLock)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d torn, --no-lock=%t: judge = %v, want %q", tt.torn, tt.noLock, err, tt.want)
		}
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--bogus"}, "--help"},
		{[]string{"5"}, `"5" is not part of a flag`},
		{[]string{"--services", "0"}, "at least 1"},
		{[]string{"--for", "0s"}, "more than 0s"},
		{[]string{"--client", "redis"}, "want goredis, redigo or rueidis"},
	} {
		if err := run(context.Background(), io.Discard, tt.args, nodes.Connect); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want %q", tt.args, err, tt.want)
		}
	}
}
