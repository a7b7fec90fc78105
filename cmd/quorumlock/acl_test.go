package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/inspect"
)

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
		for i := range w.servers {
			w.do(i+1, slices.Concat([]string{"ACL", "SETUSER", "locks", "on", ">secret"}, acl.Rules("orders:", tt.features...))...)
		}
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
