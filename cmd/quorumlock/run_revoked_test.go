//go:build linux

package main

import (
	"strings"
	"testing"
)

// An operator has taken the lock away: run says so, and that nobody else can have had it, whether the
// program ended before run saw it, or was stopped.
func TestARevokedLockIsToldFromALostOne(t *testing.T) {
	t.Parallel()
	const untilGo = `echo "$QUORUMLOCK_SLOT" > $D/ready; while [ ! -e $D/go ]; do sleep 0.01; done`
	for _, tt := range []struct {
		name string
		args []string
		ends bool // by itself
		says string
	}{
		{"the program ends before", []string{"run", "--ttl", "60s", "k", "--", "/bin/sh", "-c", untilGo}, true, `the lock on "k" was revoked while the program ran: nobody else can have had it`},
		{"of readers", []string{"run", "--ttl", "60s", "--shared", "k", "--", "/bin/sh", "-c", untilGo}, true, `the lock on "k" was revoked while the program ran: nobody else can have had it`},
		{"of a permit", []string{"run", "--ttl", "60s", "--permits", "2", "k", "--", "/bin/sh", "-c", untilGo}, true, `the lock on a permit of "k" was revoked while the program ran`},
		{"of several keys", []string{"run", "--ttl", "60s", "j", "k", "--", "/bin/sh", "-c", untilGo}, true, `the lock on "j", "k" was revoked while the program ran`},
		{"the program is stopped", []string{"run", "--ttl", "6s", "k", "--", "/bin/sh", "-c", untilGo}, false, `the lock on "k" was revoked: the program was stopped`},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newMasters(t, 3)
			w := start(t, s.nodes, tt.args)
			slot := w.file("ready")
			key := []string{"release", "k", "--force"}
			if tt.name == "of a permit" {
				key = append(key, "--slot", slot)
			}
			if got := run(t, []string{"QUORUMLOCK_NODES=" + s.nodes}, key...); got.code != exitOK {
				t.Fatalf("release --force = %+v", got)
			}
			if tt.ends {
				w.touch("go")
			}
			if code := w.code(); code != exitLost || !strings.Contains(w.talk.String(), tt.says) || strings.Contains(w.talk.String(), "not alone") {
				t.Errorf("behind release --force run ends with %d and says %q, want %d and %q", code, w.talk.String(), exitLost, tt.says)
			}
		})
	}
}

// The URLs of the nodes may have passwords, and by the token the lock can be released.
func TestTheProgramGetsNoSecretsUnasked(t *testing.T) {
	t.Parallel()
	s := newMasters(t, 3)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--ttl", "20s", "k"}, ""},
		{[]string{"run", "--ttl", "20s", "--expose-nodes", "k"}, s.nodes},
		{[]string{"run", "--ttl", "20s", "--expose-token", "k"}, "token"},
		{[]string{"elect", "--ttl", "20s", "k"}, ""},
	} {
		w := start(t, s.nodes, append(tt.args, "--", "/bin/sh", "-c", `echo "$QUORUMLOCK_NODES${QUORUMLOCK_TOKEN:+token}" > $D/nodes`))
		if got, code := w.file("nodes"), w.code(); got != tt.want || code != exitOK {
			t.Errorf("%q: the program has the nodes and the token %q, and it ended with %d; want %q and 0: %s", tt.args, got, code, tt.want, w.talk.String())
		}
	}
	hook := hookFile(t, `echo "$QUORUMLOCK_NODES" > $D/hook`)
	w := start(t, s.nodes, []string{"elect", "--ttl", "20s", "--on-elected", hook, "k", "--", "true"})
	if got := w.file("hook"); got != "" {
		t.Errorf("a hook has QUORUMLOCK_NODES=%q, want none", got)
	}
}
