package acl

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What users read is this table, and no other one.
func TestTheDocumentationShowsThisTable(t *testing.T) {
	for _, of := range []struct {
		file, row string
		pipe      string // as it is written there
		optional  bool   // shows also what is optional
	}{
		{"../../redlock/doc.go", `(?m)^//\t%s +%s$`, "|", false},
		{"../../docs/operations.md", "(?m)^\\| %s \\| `%s` \\|$", `\|`, true},
	} {
		text, err := os.ReadFile(of.file)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for _, f := range Features {
			if f.Optional && !of.optional {
				continue
			}
			rows++
			if !regexp.MustCompile(fmt.Sprintf(of.row, regexp.QuoteMeta(f.Name), regexp.QuoteMeta(strings.ReplaceAll(f.String(), "|", of.pipe)))).Match(text) {
				t.Errorf("%s has no row of %q with %q", of.file, f.Name, f)
			}
		}
		if got := len(regexp.MustCompile(fmt.Sprintf(of.row, `[^|\n]+?`, `[~&+].+?`)).FindAll(text, -1)); got != rows {
			t.Errorf("%s has %d rows of rights, want the table's %d", of.file, got, rows)
		}
	}
}

func TestRulesNameThePrefixAndNothingTwice(t *testing.T) {
	got := Rules("orders:", Locks, Fences, RestartGuard)
	for _, want := range []string{"~orders:*", "~ql:fences:*", "~ql:memory:orders:", "+evalsha", "+zadd", "+hmget"} {
		if !slices.Contains(got, want) {
			t.Errorf("the rules of prefix orders: are %q, want %q among them", got, want)
		}
	}
	sorted := slices.Clone(got)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(got) {
		t.Errorf("the rules %q have one twice", got)
	}
	if got := strings.Join(Rules("a*[b]?\\", Sets), " "); got != `~ql:line:{a\*\[b]\?\\*} ~ql:line=a\*\[b]\?\\* +zadd +zrem +zscore +zrangebyscore` {
		t.Errorf("the rule of a prefix with wildcards is %s, want them escaped", got)
	}
	if got := strings.Join(Rules("", Locks, Fences, RestartGuard), " "); strings.Count(got, "~") != 1 || !strings.HasPrefix(got, "~* ") {
		t.Errorf("the rules without a prefix are %s, want no pattern of keys behind ~*, which servers refuse", got)
	}
	if got := Rules("", RestartGuard)[0]; got != "~ql:memory" {
		t.Errorf("no prefix makes the rule %s, want ~ql:memory", got)
	}
	if got := Rules("KEYS", RestartGuard)[0]; got != "~ql:memory:KEYS" {
		t.Errorf("a prefix KEYS makes the rule %s, want ~ql:memory:KEYS", got)
	}
}
