package drivertest

import (
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// mutant is a correct driver but for one thing.
type mutant struct {
	name   string
	mutate func(p *pool) driver.Driver
	caught map[string]string // a case, and words of its complaint
}

func (m mutant) open(r reporter, addr string) Subject {
	p := newPool(addr)
	d := m.mutate(p)
	r.Cleanup(func() { _ = p.Close() })
	if s, ok := d.(*shared); ok {
		r.Cleanup(s.Close)
	}
	return Subject{Driver: d}
}

// mutants are the faults that the suite is there to find.
var mutants = []mutant{
	{"sends again when the connection is lost", mutation(sendsAgain).over, map[string]string{
		"a lost reply is an error and no second send":           "2 times, want once",
		"a reset connection is an error and no second send":     "2 times, want once",
		"half a reply is an error behind the replies before it": "2 times, want once",
	}},
	{"sends again what was refused", mutation(repeatsRefused).over, map[string]string{
		"an error reply is a reply and is not repeated":          "2 times, want once",
		"an error reply in the middle of a batch spoils nothing": "2 times, want once",
	}},
	{"ignores its context", mutation(ignoresContext).over, map[string]string{
		"a context that has ended sends nothing":                 `want an error that is "context canceled"`,
		"a deadline ends a call to a silent server":              "Do had not returned",
		"a cancel ends a call before its deadline":               "Do had not returned",
		"a deadline ends a batch larger than the buffers":        "Do had not returned",
		"calls to a silent server leave a bounded number behind": "had not returned",
	}},
	{"returns 700ms late", late(700 * time.Millisecond).over, map[string]string{
		"a deadline ends a call to a silent server": "after its context",
		"a cancel ends a call before its deadline":  "after its context",
	}},
	{"returns 100ms late", late(100 * time.Millisecond).over, map[string]string{
		"a deadline ends a call to a silent server": "50ms",
	}},
	{"hears the deadline but no cancel", mutation(ignoresCancel).over, map[string]string{
		"a cancel ends a call before its deadline": "Do had not returned",
	}},
	{"says neither deadline nor cancel", fails(hidesContext), map[string]string{
		"a deadline ends a call to a silent server": "which is not \"context deadline exceeded\"",
		"a cancel ends a call before its deadline":  "which is not \"context canceled\"",
	}},
	{"sends in another order", mutation(reorders).over, map[string]string{
		"a batch keeps its order on one connection": "arrived in place",
	}},
	{"returns replies in another order", changes(reordersReplies), map[string]string{
		"a batch of 1,000 is answered in full":          "reply 1 of",
		"64 callers at once each get their own replies": "reply 1 of",
	}},
	{"sends a batch over two connections", mutation(splits).over, map[string]string{
		"a batch keeps its order on one connection": "on another connection than the first",
		"a command that blocks holds nobody up":     "WAIT came on another connection",
	}},
	{"makes errors of error replies", changes(failsOnRefusal), map[string]string{
		"an error reply is a reply and is not repeated":          "ERR something went wrong",
		"an error reply in the middle of a batch spoils nothing": "ERR something went wrong",
	}},
	{"drops the replies before a cut", changes(dropsReplies), map[string]string{
		"half a reply is an error behind the replies before it": "Do returned 0 of the 4 replies that had arrived",
	}},
	{"fills up the replies behind a cut", changes(padsReplies), map[string]string{
		"half a reply is an error behind the replies before it":   "but only 4 had arrived",
		"a batch that is answered in part keeps no false replies": "but only 2 had arrived",
	}},
	{"takes an integer for a float", alters(roundsIntegers), map[string]string{
		"a reply of every kind arrives as it is": "want integer 9007199254740993",
	}},
	{"takes nil for an empty string", alters(losesNil), map[string]string{
		"a reply of every kind arrives as it is": "want nil",
	}},
	{"trims values", alters(trimsValues), map[string]string{
		"keys and values may hold any bytes": "want string",
	}},
	{"leaves a goroutine behind with every call", leaves(1000, false), map[string]string{
		"calls to a silent server leave a bounded number behind":       "goroutines behind, want at most",
		"calls to a server that stopped leave a bounded number behind": "goroutines behind, want at most",
	}},
	{"leaves 40 behind", leaves(40, false), map[string]string{
		"calls to a silent server leave a bounded number behind": "goroutines behind, want at most",
	}},
	{"waits for room when too many are left behind", leaves(mayRemain, true), map[string]string{
		"calls to a silent server leave a bounded number behind": "had not returned",
	}},
	{"uses a connection again after giving up on it", keepsConnection, map[string]string{
		"a late reply goes to nobody else": `want string "call 0 after a late reply"`,
	}},
	{"reads the commands after its return", mutation(keepsCommands).over, map[string]string{
		"commands are not used after the return": "put into its slice after Do had returned",
	}},
	{"changes the commands", changesCommands, map[string]string{
		"commands are left as they are": "Do changed command 1",
	}},
	{"says that nothing was sent", fails(deniesSending), map[string]string{
		"a lost reply is an error and no second send": "wraps driver.ErrNotSent, but the server received 1",
		"a deadline ends a call to a silent server":   "wraps driver.ErrNotSent, but the server received 1",
	}},
	{"ignores its context while connecting", mutation(shakesHandsFirst).over, map[string]string{
		"a deadline ends a call while connecting": "Do had not returned",
	}},
	{"dials a refused port for a second", mutation(dialsAgain).over, map[string]string{
		"a refused port fails at once": "want at once",
	}},
	{"hides what the server said", hidesRefusal(false), map[string]string{
		"a server that wants a password is heard": "but Do says",
	}},
	{"hides what the server said when it hung up", hidesRefusal(true), map[string]string{
		"a server that takes no connection is heard, whether it was asked or not": "but Do says",
	}},
	{"keeps dead connections", keepsDead, map[string]string{
		"an idle connection that the server closed is replaced": "on a server that is well again",
		"a reply that arrives before the close counts":          "on a server that is well again",
	}},
	{"shares a connection and closes it at a deadline", func(p *pool) driver.Driver { return &shared{pool: p, selfish: true} }, map[string]string{
		"our deadline is nobody else's":                        "got an error of ours",
		"our deadline at a stopped server is nobody else's":    "got an error of ours",
		"our cancel is nobody else's":                          "got an error of ours",
		"our deadline behind a slow stranger is nobody else's": "slow and ahead of our call, got an error of ours",
	}},
	{"shares a connection with commands that block", func(p *pool) driver.Driver { return &shared{pool: p} }, map[string]string{
		"a command that blocks holds nobody up":    "sent while our WAIT blocked",
		"a reply that never comes shifts no other": "reply 1 of",
	}},
}

func TestMutantsAreCaught(t *testing.T) { areCaught(t, mutants) }

// chances is how often a mutant may slip through that is tried alone.
const chances = 10

// areCaught lets the mutants wait side by side, since most of their cases are deadlines that pass. One
// may slip through: it is caught while something is on its way, which may have come and gone, or by how
// late it is, where those who watch are late as well. It is then tried alone.
func areCaught(t *testing.T, mutants []mutant) {
	t.Helper()
	defer func(before time.Duration) { patience = before }(patience)
	patience = 5 * time.Second // many mutants never do what is waited for
	type chance struct {
		mutant
		phrase, words string
	}
	complaints := func(it chance) []string {
		c := caseNamed(t, it.phrase)
		return watch(func(r reporter) { c.try(r, func(addr string) Subject { return it.open(r, addr) }) })
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var slipped []chance
	for _, m := range mutants {
		for name, words := range m.caught {
			it := chance{m, name, words}
			all.Go(func() {
				if !anyHas(complaints(it), words) {
					mu.Lock()
					defer mu.Unlock()
					slipped = append(slipped, it)
				}
			})
		}
	}
	all.Wait()
	for _, it := range slipped {
		var last []string
		for i := 0; i < chances && !anyHas(last, it.words); i++ {
			last = complaints(it)
		}
		if !anyHas(last, it.words) {
			t.Errorf("a driver that %s: %q complains of %q, want a complaint with %q", it.name, it.phrase, last, it.words)
		}
	}
}
