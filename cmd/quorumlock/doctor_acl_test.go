package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/inspect"
)

// One cause is one finding, and its lines are typed once: whatever the user of the nodes lacks, the
// finding names all of it, also the keys and channels of commands that it may not run yet.
func TestAPoorACLIsOneFindingWhoseLinesAreTypedOnce(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]string{
		"nothing at all":                                              "resetkeys resetchannels",
		"no command, and all keys and channels":                       "~* &*",
		"no MGET and no keys of the guard":                            "resetkeys resetchannels ~o:* &* +@all -mget",
		"the same, and no dry runs":                                   "resetkeys resetchannels ~o:* &* +@all -mget -acl|dryrun",
		"neither PUBLISH, SUBSCRIBE nor the channel, and no dry runs": "resetchannels +@all -publish -subscribe -acl|dryrun",
		"no SUBSCRIBE and no channel":                                 "resetchannels +@all -subscribe",
		"all channels, and no SUBSCRIBE to them":                      "+@all -subscribe -acl|dryrun",
		"keys of others, and a write alone":                           "resetkeys resetchannels ~app:* &x +set +hset",
		"what doctor asks, and no more":                               "+info +config|get +latency +scan +type",
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.args = append(w.args, "--prefix", "o:", "--guard", "--fences", "--longest-ttl", "1m")
			asUser(rules)(w)
			caused := func() (all []inspect.Finding) {
				for _, f := range w.examine().Nodes[0].Findings {
					if f.Severity != inspect.Info && (f.ID == "acl" || strings.Contains(f.Seen.String(), "NOPERM")) {
						all = append(all, f)
					}
				}
				return all
			}
			found := caused()
			if len(found) != 1 || found[0].ID != "acl" {
				t.Fatalf("the ACL %q is the cause of %+v, want one finding", rules, found)
			}
			paste(t, found[0].Mend)
			if left := caused(); left != nil {
				t.Errorf("behind the lines %q there are %+v, want none", found[0].Mend, left)
			}
		})
	}
}

// Who asks about one row alone is told of it, whatever the ACL is the cause of.
func TestWhatCannotBeToldStaysSoWhereNobodyAsksForTheACL(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	asUser("+@all -info")(w)
	before := w.args
	for _, args := range [][]string{{"--check=eviction"}, {"--check=eviction,limits"}, {"--accept", "acl"}} {
		w.args = slices.Concat(before, args)
		r := w.examine()
		if _, ok := found(r, "unknown eviction 1"); !ok {
			t.Errorf("with %q nobody is told that eviction cannot be told; there are%s", args, listing(r))
		}
	}
}

// What the user may not ask is "cannot tell", and never fit; with the rights of the doctor's row
// nothing is left untold.
func TestAUserWithTheRightsOfTheTableIsFoundToHaveThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		features []*acl.Feature
		untold   bool
	}{
		{"of locks", []*acl.Feature{acl.Locks, acl.WakeUps}, true},
		{"of locks and of the doctor", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Doctor}, false},
	} {
		w := newWard(t)
		w.args = append(w.args, "--prefix", "orders:")
		w.all(slices.Concat([]string{"ACL", "SETUSER", "locks", "on", ">secret"}, acl.Rules("orders:", tt.features...))...)
		w.nodes = strings.ReplaceAll(w.nodes, "redis://", "redis://locks:secret@")
		r := w.examine()
		untold := map[string]bool{}
		for _, f := range r.All() {
			switch f.Severity {
			case inspect.Unfit:
				t.Errorf("a user with the rights %s: %s is unfit: %v: %s", tt.name, f.ID, f.Seen, f.Why)
			case inspect.Unknown:
				untold[f.ID] = true
			}
			if ids, ok := f.Seen["untold"].(string); ok { // in one finding, for they have one cause
				for id := range strings.SplitSeq(ids, ", ") {
					untold[id] = true
				}
			}
		}
		if tt.untold && (!untold["latency"] || !untold["limits"] || !untold["wake-ups"] || !untold["foreign"]) || !tt.untold && len(untold) > 0 {
			t.Errorf("a user with the rights %s: cannot tell %v", tt.name, untold)
		}
	}
}
