package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

// The values that stand for several.
const (
	oddValue  = "\x00odd" // no string
	tombstone = protocol.RevokedPrefix
)

// class is what a node's value is compared by; "": nothing is there.
func (s *sight) class() string {
	if s.odd {
		return oddValue
	}
	if _, revoked := protocol.Revoked(s.value); revoked {
		return tombstone
	}
	return s.value
}

// noLock reports whether what nodes have is data rather than a lock.
func noLock(sights []sight) bool {
	there := false
	for i := range sights {
		s := &sights[i]
		if s.held() && !s.odd && (protocol.Marked(s.value) || !s.endless) {
			return false
		}
		there = there || s.held()
	}
	return there
}

// A count is how many nodes have something.
type count struct {
	all   int
	valid int // of these, those that do not sit out
}

func (c *count) add(quarantined bool) {
	if c.all++; !quarantined {
		c.valid++
	}
}

// judge says what the nodes' words about a key come to.
func (v *survey) judge(key string, sights []sight) KeyStatus {
	k := KeyStatus{Key: key}
	votes := make(map[string]*count)
	free, silent := 0, 0
	var names []string
	for i := range sights {
		s := &sights[i]
		k.Fence, k.InLine = max(k.Fence, s.fence), max(k.InLine, s.inLine)
		switch class := s.class(); {
		case s.err != nil:
			silent++
		case class == "":
			free++
		case votes[class] == nil:
			votes[class], names = new(count), append(names, class)
			fallthrough
		default:
			votes[class].add(v.states[i].Quarantined)
		}
	}
	k.Left, k.Gone = v.times(sights)
	k.Waits = v.waits(sights)
	size, quorum := len(sights), v.report.Quorum
	if len(names) == 0 {
		if k.State, k.Text = KeyFree, "free"; free < quorum {
			k.State, k.Text = KeyUnclear, unclear(silent)
		}
		k.Votes = v.votes("", sights)
		return k
	}
	rank := func(class string) int { // a holder comes first, then a revocation that no renewal undoes
		switch of := votes[class]; {
		case of.valid >= quorum:
			return 2
		case class == tombstone && of.all > size-quorum:
			return 1
		}
		return 0
	}
	lead := slices.MaxFunc(names, func(a, b string) int {
		x, y := votes[a], votes[b]
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(x.all, y.all), cmp.Compare(x.valid, y.valid), strings.Compare(b, a))
	})
	of := votes[lead]
	k.Votes = v.votes(lead, sights)
	if protocol.Digits(lead) != "" || protocol.Owner(lead) != "" {
		h := newHolder(lead, of.all)
		k.Holder = &h
	}
	foreign := lead == oddValue || !protocol.Marked(lead)
	switch {
	case lead == tombstone && (len(names) == 1 || of.all > size-quorum):
		k.State, k.Text = KeyRevoked, "revoked"
		for i := range sights {
			if reason, _ := protocol.Revoked(sights[i].value); reason != "" {
				k.Reason, k.Text = reason, "revoked: "+reason
			}
		}
	case lead == protocol.SharedValue:
		v.judgeShared(&k, sights, silent)
	case foreign && (of.valid >= quorum || len(names) == 1):
		k.State, k.Text = KeyForeign, "another library"
		if lead == oddValue {
			k.Text = "no lock: other data has the key"
		}
		if of.all+silent < quorum {
			k.Text += ", " + at(k.Votes)
		}
	case of.valid == quorum && quorum < size:
		k.State, k.Text = KeyAtQuorum, "held at exactly a quorum"
	case of.valid >= quorum:
		if k.State, k.Text = KeyHeld, "held"; of.valid < size {
			k.Text += fmt.Sprintf(", %s short", Plural(size-of.valid, "node"))
		}
	case of.all+silent >= quorum:
		k.State, k.Text = KeyUnclear, unclear(silent)
	case len(names) > 1 || free+silent < quorum:
		k.State, k.Text = KeySplit, "split: nobody has it"
	default:
		k.State, k.Text = KeyLeftOver, "left over "+at(k.Votes)
	}
	if t := votes[tombstone]; t != nil && k.State != KeyRevoked {
		k.Text += ", revoked at " + Plural(t.all, "node")
	}
	k.Fault = cmp.Or(k.Fault, v.fault(&k))
	return k
}

// newHolder describes the holder with a token, which so many nodes have.
func newHolder(token string, nodes int) HolderStatus {
	h := HolderStatus{Owner: protocol.Owner(token), Token: protocol.Digits(token), Nodes: nodes}
	if since := protocol.Since(token); !since.IsZero() {
		h.Since = &since
	}
	return h
}

// judgeShared judges a key that readers share: each of them needs a quorum for itself.
func (v *survey) judgeShared(k *KeyStatus, sights []sight, silent int) {
	of := make(map[string]*count)
	for i := range sights {
		for _, r := range sights[i].readers {
			if of[r.token] == nil {
				of[r.token] = new(count)
			}
			of[r.token].add(v.states[i].Quarantined)
		}
	}
	quorum, bare, unsure := v.report.Quorum, 0, 0
	for token, c := range of {
		switch {
		case c.valid >= quorum:
			k.Readers = append(k.Readers, newHolder(token, c.all))
			if c.valid == quorum && quorum < len(sights) {
				bare++
			}
		case c.all+silent >= quorum:
			unsure++
		}
	}
	slices.SortFunc(k.Readers, func(a, b HolderStatus) int {
		return cmp.Or(strings.Compare(a.Owner, b.Owner), strings.Compare(a.Token, b.Token))
	})
	switch {
	case len(k.Readers) > 0:
		k.State, k.Text = KeyShared, "shared by "+Plural(len(k.Readers), "reader")
		if bare > 0 {
			k.Text = fmt.Sprintf("shared, %d of %d at exactly a quorum", bare, len(k.Readers))
			k.Fault = "held at exactly a quorum"
		}
	case unsure > 0:
		k.State, k.Text = KeyUnclear, unclear(silent)
	case k.Left != nil && *k.Left == 0:
		k.State, k.Text = KeyLeftOver, "left over "+at(k.Votes)
	default:
		k.State, k.Text = KeySplit, "split: no reader has a quorum"
	}
}

// fault says what is not as it should be.
func (v *survey) fault(k *KeyStatus) string {
	switch {
	case k.State == KeySplit:
		return "split"
	case k.State == KeyAtQuorum:
		return "held at exactly a quorum"
	case k.State == KeyUnclear:
		return "unclear"
	case k.State == KeyLeftOver && (k.Gone == nil || *k.Gone > v.TTL.Seconds()):
		return "left over for longer than one TTL"
	}
	return ""
}

// times are when a quorum of the nodes is free, and when all are. A node that does not say is not,
// nor is one without an expiry; one that sits out has no vote.
func (v *survey) times(sights []sight) (left, gone *float64) {
	var frees []time.Duration
	last, ends := time.Duration(0), true
	for i := range sights {
		s := &sights[i]
		if s.err != nil {
			continue
		}
		last, ends = max(last, s.left), ends && !s.endless
		if !s.endless && !v.states[i].Quarantined {
			frees = append(frees, s.left)
		}
	}
	if slices.Sort(frees); len(frees) >= v.report.Quorum {
		left = inSeconds(frees[v.report.Quorum-1])
	}
	if ends {
		gone = inSeconds(last)
	}
	return left, gone
}

func inSeconds(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// votes are what each node has.
func (v *survey) votes(lead string, sights []sight) []VoteStatus {
	votes := make([]VoteStatus, len(sights))
	for i := range sights {
		s, vote := &sights[i], &votes[i]
		vote.Quarantined = v.states[i].Quarantined
		switch class := s.class(); {
		case s.err != nil:
			vote.Mark = MarkUnknown
			continue
		case class == "":
			vote.Mark = MarkNone
		case class == lead:
			vote.Mark = MarkHolder
		default:
			vote.Mark = MarkOther
		}
		vote.Owner, vote.Token = protocol.Owner(s.value), protocol.Digits(s.value)
		if !s.endless {
			vote.Left = inSeconds(s.left)
		}
	}
	return votes
}

// at names the nodes that have the leading value, by their numbers.
func at(votes []VoteStatus) string {
	var numbers []string
	for i, vote := range votes {
		if vote.Mark == MarkHolder {
			numbers = append(numbers, fmt.Sprint(i+1))
		}
	}
	if len(numbers) == 1 {
		return "at node " + numbers[0]
	}
	return "at nodes " + strings.Join(numbers, " ")
}

func unclear(silent int) string {
	if silent == 0 {
		return "cannot tell: a node sits out"
	}
	return fmt.Sprintf("cannot tell: %s silent", Plural(silent, "node"))
}

// Plural is so many things.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// waits are those that any node knows of: they are advice, of which no quorum is asked.
func (v *survey) waits(sights []sight) (all []WaitStatus) {
	seen := make(map[string]bool)
	for i := range sights {
		for _, e := range sights[i].waits {
			if seen[e.Wait] {
				continue
			}
			seen[e.Wait] = true
			w := WaitStatus{Owner: e.Owner, Since: max(0, sights[i].now.Sub(time.UnixMicro(e.Since)).Seconds())}
			for _, key := range e.Keys {
				w.For = append(w.For, Printable(strings.TrimPrefix(key, v.Prefix)))
			}
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b WaitStatus) int { return cmp.Or(cmp.Compare(b.Since, a.Since), slices.Compare(a.For, b.For)) })
	return all
}
