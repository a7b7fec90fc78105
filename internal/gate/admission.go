package gate

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// An Admission lets all nodes of a Locker vote at once, or none: see redlock.AdmitNewNodes. Its
// steps are asked of all nodes, one after the other; what is read of one is given to the node's
// [Candidate].
type Admission struct {
	all        *Restarts
	Force      bool // whatever the nodes hold
	Candidates []Candidate
}

// A Candidate is a node that is to be admitted.
type Candidate struct {
	restart *Restart
	marker  Marker
	Used    string // what shows that it was in use
	voted   bool   // it holds a marker: somebody has admitted it
}

// Admission begins an admission of all nodes.
func (all *Restarts) Admission(force bool) *Admission {
	a := &Admission{all: all, Force: force, Candidates: make([]Candidate, len(all.nodes))}
	for i, r := range all.nodes {
		a.Candidates[i].restart = r
	}
	return a
}

// A Step is one round of questions.
type Step struct {
	Ask  func(c *Candidate) (*protocol.Op, []driver.Command)
	Read func(c *Candidate, replies []driver.Reply) error
}

// Steps are those of an admission.
func (a *Admission) Steps() []Step {
	return []Step{{a.inquire, a.readInquiry}, {a.prepare, a.readPreparation}, {a.mark, a.readMark}}
}

func (a *Admission) inquire(*Candidate) (*protocol.Op, []driver.Command) { return a.all.Inquire() }

// readInquiry notes whether the node has been in use.
func (a *Admission) readInquiry(c *Candidate, replies []driver.Reply) error {
	c.marker.Replid, _ = History(replies[0]) // it has been read
	for i := range a.Candidates {
		if other := &a.Candidates[i]; other != c && other.marker.Replid == c.marker.Replid {
			return c.refuse(sameServer(other.restart.node.Name()))
		}
	}
	var held []string
	for i, record := range replies[1:] {
		if record.Kind != driver.Nil {
			c.voted = c.voted || RecordKeys[i] == MarkerKey
			held = append(held, fmt.Sprintf("%q", RecordKey(a.all.Prefix, RecordKeys[i])))
		}
	}
	if held != nil {
		c.Used = fmt.Sprintf("%s holds %s", c.restart.node.Name(), strings.Join(held, ", "))
	}
	return nil
}

// InUse is why the nodes are not admitted: some were in use.
func (a *Admission) InUse() error {
	e := &admittedError{}
	for _, c := range a.Candidates {
		if c.Used != "" {
			e.used, e.before = append(e.used, c.Used), e.before || c.voted
		}
	}
	if e.used == nil || a.Force {
		return nil
	}
	return e
}

// prepare sets the epochs where they are missing.
func (a *Admission) prepare(c *Candidate) (*protocol.Op, []driver.Command) {
	c.marker.Nonce = a.all.Random.Nonce()
	return a.all.Prepare(c.marker.Nonce)
}

// readPreparation sees that nobody else was faster.
func (a *Admission) readPreparation(c *Candidate, replies []driver.Reply) error {
	records := replies[:len(RecordKeys)]
	for i, record := range records {
		if record.Kind != driver.Nil && !a.Force {
			return &admittedError{used: []string{fmt.Sprintf("%s was given %q meanwhile", c.restart.node.Name(), RecordKey(a.all.Prefix, RecordKeys[i]))}}
		}
	}
	s := &Condition{}
	if s.read(a.all, records); s.Fault != nil {
		return c.refuse(s.Fault)
	}
	c.marker.Nonce = cmp.Or(s.nonce, c.marker.Nonce)
	return nil
}

// mark sets node sets and markers.
func (a *Admission) mark(c *Candidate) (*protocol.Op, []driver.Command) {
	c.marker.Ms = a.all.longest()
	return a.all.Admit(c.marker)
}

// readMark reports a node that has lost its history meanwhile.
func (a *Admission) readMark(c *Candidate, replies []driver.Reply) error {
	if v := c.restart.gates.Look(replies[2:], a.all.Clock.Fresh()); v.Doubt != nil {
		return c.refuse(v.Doubt)
	}
	return nil
}

// refuse is an admission that one node prevents.
func (c *Candidate) refuse(why error) error {
	return fmt.Errorf("redlock: admit: node %s: %w", c.restart.node.Name(), why)
}

// admittedError is an admission of nodes that have been in use.
type admittedError struct {
	used   []string
	before bool // some were admitted; or else clients have asked them for locks, and they sit out
}

func (e *admittedError) Error() string {
	why := "a client was faster, and the nodes sit out the longest TTL"
	if e.before {
		why = "admitted before"
	}
	return fmt.Sprintf("redlock: admit: %s, so nothing was changed: %s; nodes that do not vote yet will by themselves, once a Locker was open for the longest TTL", why, strings.Join(e.used, "; "))
}

func (e *admittedError) Is(target error) bool {
	return target == fault.ErrAdmitted || !e.before && target == fault.ErrQuarantine
}
