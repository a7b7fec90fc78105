// Package memory holds the rules of the restart guard: when a node that may have forgotten votes has
// none. It is pure: what a server says of itself and the record that it keeps are arguments. The
// package's explorer searches these rules over all losses.
//
// Each node keeps one record for each key prefix, in the memory that has the locks ([Key]):
//
//	id    the master_replid that the server had when the record was begun
//	for   the settings of its clients: "LONGEST-ms SET:SIZE"
//	age   for how long the memory was watched since, in microseconds
//	last  when it was watched last, by the server's clock, in microseconds since 1970
//
// The record goes when the keys go: at FLUSHALL, and where a server comes back empty. A server that
// comes back without its last keys (an old file, a failover, a demotion and a promotion) has another
// master_replid than its record. Either way the server begins the record anew, by the script
// remember.lua, and its grants are votes again once the age is [Settings.Need].
package memory

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Key names the record of the clients with this key prefix.
func Key(prefix string) string {
	if prefix == "" {
		return "ql:memory"
	}
	return "ql:memory:" + prefix
}

// Settings are shared by all clients of a key prefix.
type Settings struct {
	Longest time.Duration // the longest TTL that a client takes
	NodeSet uint64        // the id of the list of nodes
	Size    int           // the number of nodes
}

// String is how a record names the settings.
func (s Settings) String() string {
	return fmt.Sprintf("%d %d:%d", s.Longest.Milliseconds(), s.NodeSet, s.Size)
}

// maxLongest is the greatest longest TTL that is read, in milliseconds: 100 years.
const maxLongest = 100 * 365 * 24 * 3600 * 1000

// Parse reads the text of [Settings.String].
func Parse(text string) (s Settings, ok bool) {
	longest, list, _ := strings.Cut(text, " ")
	id, size, _ := strings.Cut(list, ":")
	ms, err1 := strconv.ParseInt(longest, 10, 64)
	s.NodeSet, _ = strconv.ParseUint(id, 10, 63)
	s.Size, _ = strconv.Atoi(size)
	s.Longest = time.Duration(ms) * time.Millisecond
	return s, err1 == nil && ms > 0 && ms <= maxLongest && s.Size > 0 && s.String() == text
}

// leaving begins the settings of a record whose node leaves for other settings.
const leaving = "to "

// Leaving is the record's text at a node that has left its settings for s: no client's settings.
func (s Settings) Leaving() string { return leaving + s.String() }

// ParseLeaving reads the text of [Settings.Leaving].
func ParseLeaving(text string) (s Settings, ok bool) {
	rest, ok := strings.CutPrefix(text, leaving)
	if !ok {
		return s, false
	}
	return Parse(rest)
}

// After is the age with which a memory begins when its settings change: leases of the old settings may be
// longer. It is 0 or less.
func (s Settings) After(before Settings) time.Duration { return min(0, s.Need()-before.Need()) }

// The bounds of the cap that [Settings.Need] adds to the longest TTL.
const (
	tick     = time.Millisecond      // the greatest age of the clock reading in a new record
	leastCap = 50 * time.Millisecond // long enough for two looks of a distant client
)

// Cap is the most that one call of the script adds to an age: a clock that is set forward while a memory is
// young makes the memory older by no more. A memory grows as long as a client looks once in a Cap.
func (s Settings) Cap() time.Duration { return max(s.Longest/8, leastCap) }

// Need is the age from which a node votes: the longest TTL, one tick, and one Cap for one step of the node's
// clock. No allowance for drift is needed: the age runs by the clock that ended the lost keys, and holders
// have taken the drift off their leases.
func (s Settings) Need() time.Duration { return s.Longest + tick + s.Cap() }

// Rules are the rules of a client.
type Rules struct {
	Settings
	Text string // of the settings
}

// New returns the rules of a client with these settings.
func New(s Settings) *Rules { return &Rules{s, s.String()} }

// A Server is a server's own description: fields of INFO replication.
type Server struct{ Role, History string }

// A Record is the server's record. The zero Record: the server keeps none.
type Record struct {
	ID, For string
	Age     time.Duration
}

// Age reads an age from a record. A text that is no number is age 0: the script begins such a record anew.
func Age(text string) time.Duration {
	const most = 1 << 53 // servers count exactly up to here
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return time.Duration(max(-most, min(n, most))) * time.Microsecond
}

// A State is what a look shows of a node.
type State uint8

// The states. In all but the first the node has no vote.
const (
	Votes    State = iota
	Young          // its memory is of this history, and not old enough yet
	Missing        // there is no record
	Forgot         // the record is of another history: the last keys may be missing
	Others         // the record is for clients with other settings
	Replica        // its keys are its master's
	Nameless       // the server hides its run_id or its history
)

// Judge says by a look whether the node votes for this client, and for how long the memory has to be watched
// until then. Settings come first, whatever the history: only the script change.lua gives a node other
// settings.
func (r *Rules) Judge(s Server, own Record) (state State, left time.Duration) {
	switch need := r.Need(); {
	case s.Role == "" || !isHistory(s.History):
		return Nameless, 0
	case s.Role != "master":
		return Replica, 0
	case own == Record{}:
		return Missing, need
	case own.For != r.Text:
		return Others, 0
	case own.ID != s.History:
		return Forgot, need
	case own.Age < need:
		return Young, need - own.Age
	}
	return Votes, 0
}

// isHistory reports whether a text is 40 hex digits.
func isHistory(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == 40
}

// A View is a client's knowledge of a node, by the last look.
type View uint8

// The views.
const (
	Unheard View = iota
	Blank        // the node keeps no record
	Agrees       // its record is for this client's settings
	Differs      // the record is for other settings
)

// View is what the state shows of the settings; Unheard: nothing.
func (s State) View() View {
	return [...]View{Agrees, Agrees, Blank, Agrees, Differs, Unheard, Unheard}[s]
}

// MayBegin reports whether a client with these views of its nodes may begin a record. A client with other
// settings than the rest could begin a record at a node that came back empty, and have a quorum with that
// node. So a client that has seen other settings begins none; nor does a client that has heard of no
// agreeing node, unless it has heard of all nodes.
func MayBegin(nodes []View) bool {
	heard, agreed := true, false
	for _, v := range nodes {
		switch v {
		case Differs:
			return false
		case Agrees:
			agreed = true
		case Unheard:
			heard = false
		case Blank:
		}
	}
	return heard || agreed
}
