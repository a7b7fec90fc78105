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
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	const row = "(?m)^\\| %s \\| `%s` \\|$"
	for _, f := range Features {
		if !regexp.MustCompile(fmt.Sprintf(row, regexp.QuoteMeta(f.Name), regexp.QuoteMeta(strings.ReplaceAll(f.String(), "|", `\|`)))).Match(text) {
			t.Errorf("the page has no row of %q with %q", f.Name, f)
		}
	}
	if got := len(regexp.MustCompile(fmt.Sprintf(row, `[^|\n]+?`, `[~&+].+?`)).FindAll(text, -1)); got != len(Features) {
		t.Errorf("the page has %d rows of rights, want the table's %d", got, len(Features))
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
