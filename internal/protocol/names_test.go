package protocol

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

// roles are those of which a key has one each.
var roles = []string{RoleReaders, RolePool, RolePermits, RoleLine, RoleWaits}

// namesOf are the names of all that may stand beside a key.
func namesOf(key string) (names []string) {
	for _, role := range roles {
		names = append(names, Beside(role, key))
	}
	for _, slot := range []int{1, 11} {
		name := SlotKey(key, slot)
		names = append(names, name, Beside(RoleLine, name))
	}
	return names
}

// All keys of small alphabets: what has a meaning in names, and the digits and letters of names.
func TestNamesBesideKeysAreDistinctNoLocksAndOnTheServerOfTheirKey(t *testing.T) {
	for _, alphabet := range []string{"{}a:", "{}1:", "{}:=lq"} {
		most := 8
		if len(alphabet) > 4 {
			most = 6
		}
		seen := make(map[string]string)
		wrong := 0
		var look func(key string)
		look = func(key string) {
			if key != "" && HasNames(key) && !IsReserved("", key) {
				for _, name := range namesOf(key) {
					was, there := seen[name]
					seen[name] = key
					if there || !IsReserved("", name) || hashTag(name) != hashTag(key) {
						if wrong++; wrong < 10 {
							t.Errorf("%q is a name of %q and of %q, a lock's: %v, on the server of %q", name, key, was, !IsReserved("", name), hashTag(name))
						}
					}
				}
				for _, slot := range []int{1, 11} {
					if of, number, ok := SlotOf(SlotKey(key, slot)); of != key || number != slot || !ok {
						t.Errorf("slot %d of %q is read as slot %d of %q, %v", slot, key, number, of, ok)
					}
				}
			}
			if len(key) < most {
				for i := range alphabet {
					look(key + alphabet[i:i+1])
				}
			}
		}
		look("")
		t.Logf("%d names over %q, %d of them wrong", len(seen), alphabet, wrong)
	}
}

func TestWhichKeysHaveNames(t *testing.T) {
	for _, tt := range []struct {
		key, line string // "": it has none
	}{
		{"k", "ql:line:{k}"},
		{"{k}", "ql:line={k}"},
		{"{{k}}", "ql:line={{k}}"},
		{"{", "ql:line:{{}"},
		{"{a", "ql:line:{{a}"},
		{"a{b}c", "ql:line=a{b}c"},
		{"a}b{c}", "ql:line=a}b{c}"},
		{"\xff\xfe", "ql:line:{\xff\xfe}"},
		{strings.Repeat("k", 1<<20), "ql:line:{" + strings.Repeat("k", 1<<20) + "}"},
		{"}", ""},
		{"a}b", ""},
		{"a}b{c", ""},
		{"{}", ""},
		{"{}x", ""},
		{"{}{a}", ""},
	} {
		if has := HasNames(tt.key); has != (tt.line != "") || has && Beside(RoleLine, tt.key) != tt.line {
			t.Errorf("%.20q has names: %v, and its line is %.40q, want %.40q", tt.key, has, Beside(RoleLine, tt.key), tt.line)
		}
	}
}

func TestNoPrefixMakesALockOfALibrarysKey(t *testing.T) {
	for _, name := range []string{"ql:", "ql:line:{k}", "ql:memory"} {
		for i := range len(name) + 1 {
			if !IsReserved(name[:i], name[i:]) {
				t.Errorf("%q is a lock with the prefix %q", name, name[:i])
			}
		}
	}
	for _, tt := range [][2]string{{"", "q"}, {"", "ql"}, {"q", "l"}, {"ql", ""}, {"", "qL:"}, {"x", "ql:"}, {"ql.", "ql:"}, {"", "{ql:}"}, {"", ""}} {
		if IsReserved(tt[0], tt[1]) {
			t.Errorf("no lock may be called %q with the prefix %q", tt[1], tt[0])
		}
	}
}

func ExampleBeside() {
	fmt.Println(Beside(RoleReaders, "orders:42"), Beside(RoleReaders, "{orders}:42"), SlotKey("gpus", 2), SlotKey("{app}:gpus", 2))
	// Output: ql:readers:{orders:42} ql:readers={orders}:42 ql:slot:{gpus}2 ql:slot={app}:gpus:2
}

// The slots are those of the Redis Cluster specification.
func TestASetOfCountersIsOnTheServerOfItsKeys(t *testing.T) {
	for key, slot := range map[string]int{"123456789": 12739, "foo": 12182, "{foo}:bar": 12182, "": 0, "{}": 15257} {
		if got := slots().of(key); got != slot {
			t.Errorf("the slot of %q is %d, want %d", key, got, slot)
		}
		if set := FenceSet(key); slots().of(set.(string)) != slot || !IsReserved("", set.(string)) {
			t.Errorf("the counter of %q is in %q, which is in the slot %d, want %d and a name of our own", key, set, slots().of(set.(string)), slot)
		}
	}
	seen := make(map[any]bool)
	for slot, set := range slots().sets {
		if seen[set] || slots().of(set.(string)) != slot || !strings.HasPrefix(set.(string), FenceSets+"{") {
			t.Fatalf("the set of slot %d is %q", slot, set)
		}
		seen[set] = true
	}
}

func TestASizeIsReadInBothProtocols(t *testing.T) {
	text := func(s string) driver.Reply { return driver.Reply{Kind: driver.String, Str: s} }
	list := func(elems ...driver.Reply) driver.Reply { return driver.Reply{Kind: driver.Array, Elems: elems} }
	for _, tt := range []struct {
		name           string
		member, floor  driver.Reply
		counter, least int64
		ok             bool
	}{
		{"RESP2", list(text("k"), text("1763715001134567")), text("7"), 1763715001134567, 7, true},
		{"RESP3", list(list(text("k"), text("1.763715001134567e15"))), driver.Reply{}, 1763715001134567, 0, true},
		{"a small set", list(), text("7"), 0, 0, false},
		{"no list", text("k"), text("7"), 0, 0, false},
		{"no number", list(text("k"), text("k")), text("7"), 0, 0, false},
		{"no floor", list(text("k"), text("8")), text("garbage"), 0, 0, false},
		{"a floor that is an error", list(text("k"), text("8")), driver.Reply{Kind: driver.Failure, Str: "7"}, 0, 0, false},
	} {
		if counter, least, ok := ReadSize([]driver.Reply{tt.member, tt.floor}); ok != tt.ok || ok && (counter != tt.counter || least != tt.least) {
			t.Errorf("%s: %d, %d, %v, want %d, %d, %v", tt.name, counter, least, ok, tt.counter, tt.least, tt.ok)
		}
	}
}
