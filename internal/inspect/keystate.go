package inspect

import "time"

// A StatusReport says who holds what.
type StatusReport struct {
	Schema string       `json:"schema"`
	Time   time.Time    `json:"time"`   // in UTC
	Quorum int          `json:"quorum"` // so many nodes must have the same token
	Keys   []KeyStatus  `json:"keys"`   // in the order of their names; not those of [StatusParts]
	Nodes  []NodeStatus `json:"nodes"`  // in the order in which they were given
	Others int          `json:"others"` // so many keys were found that hold no lock: without an expiry, or of another type
}

// A NodeStatus is about one node.
type NodeStatus struct {
	Name        string `json:"name"`
	Keys        int64  `json:"keys,omitempty"`  // of its database, if keys are listed
	Quarantined bool   `json:"quarantined"`     // its votes do not count: redlock.WithRestartGuard
	Error       string `json:"error,omitempty"` // what it did not say, and why; "": it has said everything
}

// A KeyState is what the nodes' votes for a key come to.
type KeyState string

// The states of a key.
const (
	KeyFree     KeyState = "free"           // of a key that was named: nobody has it
	KeyHeld     KeyState = "held"           // a quorum has the token of one holder
	KeyAtQuorum KeyState = "held-at-quorum" // exactly a quorum has it: the loss of one more node ends the lock
	KeyShared   KeyState = "shared"         // readers hold it: see Readers
	KeyPermits  KeyState = "permits"        // a semaphore of which some permits are held: see Slots
	KeySplit    KeyState = "split"          // several have votes and nobody a quorum, or one has and the others' nodes are too few
	KeyLeftOver KeyState = "left-over"      // a minority has the token of nobody who holds the key: it is free
	KeyForeign  KeyState = "foreign"        // another library has it, redlock.WithToken, or other data: see Text
	KeyRevoked  KeyState = "revoked"        // it was taken from its holder: see [Revoke]
	KeyUnclear  KeyState = "unclear"        // nodes that do not say, or sit out, could make a quorum
)

// A KeyStatus is what the nodes say of one key, or of one slot of a semaphore.
type KeyStatus struct {
	Key     string         `json:"key"`               // without the prefix
	Slot    *int           `json:"slot,omitempty"`    // of a semaphore: from 0
	State   KeyState       `json:"state"`             //
	Text    string         `json:"text"`              // the state in words
	Fault   string         `json:"fault,omitempty"`   // what is not as it should be; "": nothing
	Holder  *HolderStatus  `json:"holder,omitempty"`  // whose token most nodes have, if it is of this library
	Readers []HolderStatus `json:"readers,omitempty"` // that hold the key together
	Waits   []WaitStatus   `json:"waits,omitempty"`   // of those who hold the key, for others: see redlock.WithDeadlockDetection
	InLine  int            `json:"in_line,omitempty"` // so many Lockers wait for it, as the node says that knows of most; those that came just now may be missing
	Reason  string         `json:"reason,omitempty"`  // why it was revoked
	Left    *float64       `json:"left_s"`            // in seconds: until so many nodes have let go that those free make a quorum; nil: they do not
	Gone    *float64       `json:"gone_s"`            // in seconds: until all have; nil: they do not
	Fence   int64          `json:"fence,omitempty"`   // the greatest that a node has accepted: that of the holder, or of a later try
	Permits int            `json:"permits,omitempty"` // of a semaphore
	Taken   int            `json:"taken,omitempty"`   // of these
	Slots   []KeyStatus    `json:"slots,omitempty"`   // of which nodes have anything
	Votes   []VoteStatus   `json:"votes"`             // of the nodes, in their order; of a semaphore see Slots
}

// A HolderStatus names a holder. A token is a secret, of which it has four digits.
type HolderStatus struct {
	Owner string     `json:"owner,omitempty"` // by redlock.WithOwner; "": it has no name
	Since *time.Time `json:"since,omitempty"` // when it was taken, by its owner's clock; nil: not known
	Token string     `json:"token,omitempty"` // its first digits, which tell holders apart
	Nodes int        `json:"nodes"`           // so many nodes have it
}

// A WaitStatus is a wait under the lock on a key. A waiter for that key waits for this one as
// well.
type WaitStatus struct {
	Owner string   `json:"owner,omitempty"` // of the lock, by redlock.WithOwner; "": it has no name
	For   []string `json:"for"`             // keys, without the prefix
	Since float64  `json:"since_s"`         // in seconds: so long it has waited
}

// A Mark is what a node has, by the place in the table.
type Mark string

// The marks.
const (
	MarkHolder  Mark = "holder"  // the token that most nodes have
	MarkOther   Mark = "other"   // something else
	MarkNone    Mark = "none"    // nothing
	MarkUnknown Mark = "unknown" // it did not say
)

// A VoteStatus is what one node has at a key.
type VoteStatus struct {
	Mark        Mark     `json:"mark"`
	Quarantined bool     `json:"quarantined,omitempty"` // it does not count: the node sits out
	Owner       string   `json:"owner,omitempty"`
	Token       string   `json:"token,omitempty"` // the first digits of the token
	Left        *float64 `json:"left_s"`          // in seconds: until the node forgets it; nil: it does not, or did not say
}
