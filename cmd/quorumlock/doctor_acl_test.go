package main

import (
	"slices"
	"strings"
	"testing"

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
			w.user(rules)
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
	w.user("+@all -info")
	before := w.args
	for _, args := range [][]string{{"--check=eviction"}, {"--check=eviction,limits"}, {"--accept", "acl"}} {
		w.args = slices.Concat(before, args)
		r := w.examine()
		if _, ok := find(r, "eviction", inspect.Unknown, 1); !ok {
			t.Errorf("with %q nobody is told that eviction cannot be told; there are%s", args, listing(r))
		}
	}
}
