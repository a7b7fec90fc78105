package protocol

import (
	"fmt"
	"strings"
	"testing"
)

// roles are those of which a key has one each.
var roles = []string{RoleReaders, RoleWriter, RoleWanted, RolePermits, RoleLine, RoleLive, RoleWaits}

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
	for _, name := range []string{"ql:", "ql:line:{k}", "ql:epoch"} {
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
