package redlock

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/scripts"
)

// A witness stands at all nodes and notes which of their answers have the form of a grant.
// It has a reading of its own, from what the protocol's texts say and not from the code.
type witness struct {
	fences     bool
	guard      time.Duration
	nodes      int
	clockGuard bool
	wait       string // WAIT, WAITAOF or ""
	replicas   int64

	mu      sync.Mutex
	granted map[vow]time.Time // when the last such answer was given
	fenced  map[vow]bool      // and whether the node said that it is the greatest
}

// A vow is what one node has granted to a token: the key, or a fence.
type vow struct {
	node  int
	token string
	fence string
}

// see takes in what a node has answered to a batch.
func (w *witness) see(node int, cmds []driver.Command, replies []driver.Reply) {
	replies = replies[:min(len(replies), len(cmds))]
	counts := w.counts(cmds, replies)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.granted == nil {
		w.granted, w.fenced = map[vow]time.Time{}, map[vow]bool{}
	}
	half := false
	for i, reply := range replies {
		args := cmds[i].Args
		// Without scripts a key of one's own is prolonged by a second batch, and that one
		// says whether all of it counts.
		half = half || args[0] == "SET" && len(args) > 3 && reply.Kind == driver.String && reply.Str == args[2]
		switch name := commandName(args); {
		case !counts && !half:
		case name == "GET" && i >= 2 && commandName(cmds[i-2].Args) == "ZADD":
			zadd, floor := cmds[i-2].Args[4].(string), replies[i-1]
			least, err := strconv.ParseFloat(floor.Str, 64)
			told := floor.Kind == driver.Nil || floor.Kind == driver.String && err == nil
			if replies[i-2].Kind == driver.Integer && told && reply.Kind == driver.String {
				fence := vow{node, reply.Str, zadd}
				w.fenced[fence] = w.fenced[fence] || replies[i-2].Int == 1 && int64(least) < int64(atoi(zadd))
			}
		case !counts:
		case name == "GET" && i >= 1 && commandName(cmds[i-1].Args) == "PEXPIRE":
			if replies[i-1].Kind != driver.Failure && reply.Kind == driver.String {
				w.granted[vow{node, reply.Str, ""}] = time.Now()
			}
		case together(args):
			for i, token := range tokensOf(args) {
				if reply.Kind == driver.Integer && reply.Int >= 0 && reply.Int < 1<<len(tokensOf(args)) && reply.Int>>i&1 == 1 {
					w.granted[vow{node, token.(string), ""}] = time.Now()
				}
			}
		case name != "GET" && grants(args, reply):
			w.granted[vow{node, grantee(args), ""}] = time.Now()
		}
	}
}

// counts reports whether what was granted in a batch is a vote.
func (w *witness) counts(cmds []driver.Command, replies []driver.Reply) bool {
	if w.guard > 0 {
		look := len(cmds) - 2 // the last one: one at the head is somebody else's
		for look > 0 && cmds[look+1].Args[0] != "MGET" {
			look--
		}
		if look < 1 || len(replies) < look+2 || !w.admits(replies[look], replies[look+1]) {
			return false
		}
	}
	if w.clockGuard {
		seen := false
		for i, reply := range replies {
			seen = seen || cmds[i].Args[0] == "TIME" && reply.Kind == driver.Array && len(reply.Elems) == 2
		}
		if !seen {
			return false
		}
	}
	if w.wait != "" {
		at := slices.IndexFunc(cmds, waits)
		if at < 0 || len(replies) <= at || cmds[at].Args[0] != w.wait {
			return false
		}
		reply := replies[at]
		if w.wait == "WAITAOF" {
			if reply.Kind != driver.Array || len(reply.Elems) != 2 || reply.Elems[0].Kind != driver.Integer || reply.Elems[0].Int < 1 {
				return false
			}
			reply = reply.Elems[1]
		}
		return reply.Kind == driver.Integer && reply.Int >= w.replicas
	}
	return true
}

// record is a record of the first version, with extensions that may be ignored.
var record = regexp.MustCompile(`^v1 ([^ ]+(?: [^ ]+)*?)(?: [a-z][a-z0-9-]*=[!-~]+)*$`)

// roleLine and historyLine are what counts in INFO.
var (
	roleLine    = regexp.MustCompile(`(?s)(?:\A|\n)role:(.*?)(?:\r\n|\z)`)
	historyLine = regexp.MustCompile(`(?s)(?:\A|\n)master_replid:(.*?)(?:\r\n|\z)`)
)

// admits reports whether a look lets the node vote.
func (w *witness) admits(info, records driver.Reply) bool {
	role, id := roleLine.FindStringSubmatch(info.Str), historyLine.FindStringSubmatch(info.Str)
	if info.Kind != driver.String || role == nil || role[1] != "master" || id == nil || len(id[1]) != 40 ||
		records.Kind != driver.Array || len(records.Elems) != 3 {
		return false
	}
	var texts [3]string
	for i, elem := range records.Elems {
		match := record.FindStringSubmatch(elem.Str)
		if elem.Kind != driver.String || match == nil {
			return false
		}
		texts[i] = match[1]
	}
	admitted, longest, _ := strings.Cut(texts[1], " "+texts[0]+" ")
	ms, err := strconv.ParseInt(longest, 10, 64)
	listed := false
	for entry := range strings.SplitSeq(texts[2], ",") {
		group, ours := strings.CutPrefix(entry, fmt.Sprintf("0:%d@", w.nodes))
		if ours && group == "0" {
			return false
		}
		listed = listed || ours
	}
	return admitted == id[1] && err == nil && ms >= w.guard.Milliseconds() && listed
}

// grantee is the token for which a command asks.
func grantee(args []any) string {
	switch args[0] {
	case "SET":
		return args[2].(string)
	case "CAS":
		return args[3].(string)
	case "EVAL", "EVALSHA":
		return args[4].(string)
	}
	return ""
}

// together reports whether a command is several extensions.
func together(args []any) bool {
	return (args[0] == "EVAL" || args[0] == "EVALSHA") && (args[1] == scripts.Extend.Digest || args[1] == scripts.Extend.Source)
}

// tokensOf are the tokens of such a command.
func tokensOf(args []any) []any {
	count := atoi(args[2])
	return args[3+count : 3+2*count]
}

// grants reports whether the answer to a command has the form of one that gives the asking
// token the key, or its number a place.
func grants(args []any, reply driver.Reply) bool {
	switch commandName(args) {
	case "SET":
		return len(args) > 3 && (reply.Kind == driver.Nil || reply.Kind == driver.String && reply.Str == args[2])
	case "SET IFEQ":
		return args[5] == "PX" && reply.Kind == driver.String && reply.Str == "OK"
	case "CAS", "ZADD":
		return reply.Kind == driver.Integer && reply.Int == 1
	case "EVAL", "EVALSHA":
		if args[1] != scripts.Hold.Digest && args[1] != scripts.Hold.Source {
			return false
		}
		most := int64(2)
		if len(args) > 6 {
			most = 3
		}
		return reply.Kind == driver.Integer && reply.Int >= 1 && reply.Int <= most
	case "GET":
		return reply.Kind == driver.String // the token may be that of whoever asks
	}
	return false
}

// confirmsLock fails the test if a lock was granted by fewer nodes than a quorum since then.
func (w *witness) confirmsLock(t *testing.T, lock *Lock, since time.Time) {
	t.Helper()
	w.confirms(t, lock, "a lock", since, func(fence vow) bool { return w.fenced[fence] })
}

// confirmsLease does the same for a lease that was prolonged. A fence that is carried along
// need not be new to the node.
func (w *witness) confirmsLease(t *testing.T, lock *Lock, since time.Time) {
	t.Helper()
	w.confirms(t, lock, "an extension", since, func(fence vow) bool { _, known := w.fenced[fence]; return known })
}

func (w *witness) confirms(t *testing.T, lock *Lock, what string, since time.Time, fenced func(vow) bool) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	b := lock.locker.board
	keys, numbers := 0, 0 // a fence that was raised has a quorum of its own
	for node := range b.Nodes {
		if at, granted := w.granted[vow{node, lock.Token(), ""}]; granted && !at.Before(since) {
			keys++
		}
		if fenced(vow{node, lock.Token(), strconv.FormatInt(lock.Fence(), 10)}) {
			numbers++
		}
	}
	if keys < b.Quorum || w.fences && numbers < b.Quorum {
		t.Errorf("%s counts as had, and of %d nodes %d have given the key and %d have taken the fence, want %d: %v",
			what, len(b.Nodes), keys, numbers, b.Quorum, lock.Votes())
	}
}
