package fault

import "time"

// A Kind tells what an [Event] is about. Package redlock documents the kinds.
type Kind uint8

// The kinds of events.
const (
	NodeUp Kind = iota + 1
	NodeDown
	NodeUnchecked
	NodeEvicts
	NodeMuted
	NodeClockStepped
	NodeClockDrifts
	NodeQuarantined
	NodeAdmitted
	NodeLimited
	LockForgotten
)

// An Event is something that an operator may want to know and that no call returns.
type Event struct {
	Kind   Kind
	Node   string
	Err    error
	Time   time.Time
	Lasted time.Duration // how long the node was in the state that it leaves
}
