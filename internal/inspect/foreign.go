package inspect

import (
	"context"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// Foreign is what a sample of the keys under the prefix has shown beside locks of ours.
type foreign struct {
	refused driver.Reply // why there is no sample
	asked   string       // the command that was refused
	others  []otherKey   // that hold no lock
	locks   []string     // of other libraries
}

type otherKey struct{ name, kind string }

// The size of the sample.
const (
	scans  = 5
	perOne = "1000"
	looks  = 100
)

// sample looks at some of the keys under the prefix.
func (t *target) sample(ctx context.Context) {
	var keys []string
	for cursor, i := "0", 0; i < scans && len(keys) < looks; i++ {
		replies, err := t.ask(ctx, patience, command("SCAN", cursor, "MATCH", pattern(t.exam.Prefix), "COUNT", perOne))
		if err != nil {
			t.fail(ctx, err)
			return
		}
		if len(replies[0].Elems) != 2 {
			t.foreign.refused, t.foreign.asked = replies[0], "scan"
			return
		}
		for _, key := range replies[0].Elems[1].Elems {
			keys = append(keys, key.Str)
		}
		if cursor = replies[0].Elems[0].Str; cursor == "0" {
			break
		}
	}
	keys = distinct(keys) // a scan may show a key twice
	keys = keys[:min(len(keys), looks)]
	var cmds []driver.Command
	for _, key := range keys {
		cmds = append(cmds, onKey("TYPE", key), onKey("GET", key), onKey("PTTL", key))
	}
	if len(cmds) == 0 {
		return
	}
	replies, err := t.ask(ctx, patience, cmds...)
	if err != nil {
		t.fail(ctx, err)
		return
	}
	for i, key := range keys {
		t.classify(key, replies[3*i], replies[3*i+1], replies[3*i+2])
	}
}

// pattern matches all that begins with the prefix.
func pattern(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(prefix) + "*"
}

// classify says whether a key is one of a lock's. A value is nobody's business: it may be a token.
func (t *target) classify(key string, kind, value, left driver.Reply) {
	f := &t.foreign
	if kind.Kind == driver.Failure {
		if protocol.Says(kind, "NOPERM") && strings.Contains(kind.Str, "command") {
			f.refused, f.asked = kind, "type"
		}
		return
	}
	switch {
	case kind.Str == "none":
	case strings.HasPrefix(key, protocol.FenceSets) && kind.Str != "zset":
		f.others = append(f.others, otherKey{key, kind.Str})
	case protocol.IsReserved("", key):
	case kind.Str != "string":
		f.others = append(f.others, otherKey{key, kind.Str})
	case value.Kind != driver.String || protocol.Marked(value.Str):
	case left.Int < 0:
		f.others = append(f.others, otherKey{key, "string without an expiry"})
	default:
		f.locks = append(f.locks, key)
	}
}

// checkForeign says who else uses the keys of locks.
func (t *target) checkForeign() {
	f := &t.foreign
	if f.asked != "" {
		t.cannotTell("foreign", "who else uses the keys", f.asked, f.refused)
		return
	}
	if len(f.others) > 0 {
		severity, why := Unfit, "a lock of such a name can never be acquired, and its fence or slots may be refused"
		if t.exam.Prefix == "" {
			severity, why = Warning, "locks share the database with other data: a lock of such a name can never be acquired"
		}
		mend := []string{"# give locks a --prefix or a database of their own; or, if nobody uses these keys under their names:"}
		for _, other := range f.others[:min(len(f.others), 3)] {
			if protocol.IsName(other.name) { // which no terminal takes for something else
				mend = append(mend, t.redis("rename", other.name, "moved:"+other.name))
			}
		}
		t.find("foreign", severity, Seen{"keys": len(f.others), "such_as": f.others[0].name, "type": f.others[0].kind}, why, mend...)
	}
	if len(f.locks) > 0 {
		t.find("foreign", Warning, Seen{"keys": len(f.locks), "such_as": f.locks[0]},
			"keys without our mark: another library may share the locks, whose waiters are not woken and which has no fences",
			"# let all clients of a key use one library (a lock whose token a program has chosen has no mark either)")
	}
}
