package schedule

import "time"

// A Kind is what a fault does.
type Kind string

// What may happen to a node, to a client's process, and to all nodes at once.
const (
	Kill               Kind = "kill" // and start again: empty, or with what is on its disk
	Die                Kind = "die"  // and start again after a while, longer than anybody may wait
	Pause              Kind = "pause"
	CutRequests        Kind = "cut requests" // they arrive late
	CutReplies         Kind = "cut replies"
	Cut                Kind = "cut both ways"
	Lose               Kind = "cut and lose" // what was under way never arrives
	Refuse             Kind = "refuse connections"
	Delay              Kind = "delay" // with jitter
	Reset              Kind = "reset connections"
	Truncate           Kind = "reset in mid-reply"
	StepForward        Kind = "set the clock forward"
	StepBack           Kind = "set the clock back"
	FlushScripts       Kind = "SCRIPT FLUSH"
	FlushAll           Kind = "FLUSHALL"
	FullMemory         Kind = "CONFIG SET maxmemory" // it refuses writes
	Forbid             Kind = "ACL without what locks need"
	CloseClients       Kind = "CLIENT KILL normal"
	CloseSubscriptions Kind = "CLIENT KILL pubsub"
	PauseClients       Kind = "CLIENT PAUSE"
	Failover           Kind = "FAILOVER and back"       // to a replica that has all
	Promote            Kind = "kill, promote a replica" // which may lack the last votes
	Copy               Kind = "REPLICAOF another node"  // and a master again, with its data
	KillAll            Kind = "restart the whole cluster"
	FlushEverywhere    Kind = "FLUSHALL on all nodes"
	StallNode          Kind = "stall again and again"         // for longer than a node may take
	StallLinks         Kind = "hold links up again and again" // the same
	Farther            Kind = "farther away"                  // than the others, by a round trip that is in time
	SlowInTime         Kind = "slow but in time"              // its answers take most of what a node may take
	FlushInVote        Kind = "FLUSHALL in the middle of a vote's batch"
	TurnInVote         Kind = "REPLICAOF there and back in the middle of a vote's batch" // to an empty server: nobody is cut off
	StepForwardInVote  Kind = "set all clocks forward in the middle of a vote's batch"   // and those at its end where no vote came
	StepBackInVote     Kind = "set all clocks back in the middle of a vote's batch"      // the same
	StopClient         Kind = "stop a client"                                            // past its leases, or not
	KillClient         Kind = "kill a client"
	HotKey             Kind = "a key that all try for again and again" // while one holds it, and renews it
	BlockCallbacks     Kind = "callbacks that block"
	PanicCallbacks     Kind = "callbacks that panic"
)

// A victim is what a kind harms.
type victim int

const (
	node       victim = iota
	replicated        // a node that has a replica
	minority          // one node or more
	cluster
	client
	clients // all of them
)

// A habit is how often, how long and how much of a kind there is. Durations are in
// leases, for what matters is whether one ends meanwhile.
type habit struct {
	kind   Kind
	victim victim
	weight int
	// It lasts between these.
	least, most float64
	// It is this strong: a delay, a step. See Fault.Amount.
	weakest, strongest float64
	// Or one of these, which no lease scales.
	amounts []time.Duration
	// This long after its end the node may still not vote.
	recovery float64
	// It may lose votes and fences, at any moment while it lasts.
	forgets bool
}

// ofClients reports whether it harms clients' processes.
func (h habit) ofClients() bool { return h.victim == client || h.victim == clients }

// forgetful is how long a node that has forgotten its votes is in quarantine, and how
// long it may be until somebody sees that it is back, and that it votes.
const forgetful = 1.125 + 2.5

// shaken is how long it may take until clients are connected again.
const shaken = 1.5

var habits = []habit{
	{kind: Kill, weight: 8, most: 1, recovery: forgetful, forgets: true},
	{kind: Die, weight: 1, least: 12, most: 16, recovery: forgetful, forgets: true},
	{kind: Pause, weight: 8, least: 0.05, most: 2, recovery: shaken},
	{kind: CutRequests, weight: 4, least: 0.05, most: 2, recovery: shaken},
	{kind: CutReplies, weight: 4, least: 0.05, most: 2, recovery: shaken},
	{kind: Cut, weight: 4, least: 0.05, most: 2, recovery: shaken},
	{kind: Lose, weight: 4, least: 0.05, most: 2, recovery: shaken},
	{kind: Refuse, weight: 3, most: 1, recovery: shaken},
	{kind: Delay, weight: 6, least: 0.2, most: 2, weakest: 0.005, strongest: 0.4, recovery: shaken},
	{kind: Reset, weight: 4, recovery: shaken},
	{kind: Truncate, weight: 4, most: 0.2, recovery: shaken},
	{kind: StepForward, weight: 1, weakest: 0.1, strongest: 5, recovery: forgetful},
	{kind: StepBack, weight: 1, weakest: 0.1, strongest: 5, recovery: forgetful},
	{kind: FlushScripts, weight: 4},
	{kind: FlushAll, weight: 4, recovery: forgetful, forgets: true},
	{kind: FullMemory, weight: 4, least: 0.05, most: 1, recovery: shaken},
	{kind: Forbid, weight: 3, least: 0.05, most: 1, recovery: shaken},
	{kind: CloseClients, weight: 4, recovery: shaken},
	{kind: CloseSubscriptions, weight: 4, recovery: shaken},
	{kind: PauseClients, weight: 3, least: 0.05, most: 1.5, recovery: shaken},
	{kind: Failover, victim: replicated, weight: 3, least: 0.2, most: 2, recovery: forgetful, forgets: true},
	{kind: Promote, victim: replicated, weight: 3, least: 0.2, most: 2, recovery: forgetful, forgets: true},
	{kind: Copy, weight: 2, least: 0.2, most: 1, recovery: forgetful, forgets: true},
	{kind: KillAll, victim: cluster, weight: 2, most: 0.5, recovery: forgetful, forgets: true},
	{kind: FlushEverywhere, victim: cluster, weight: 1, recovery: forgetful, forgets: true},
	{kind: StallNode, weight: 2, least: 4, most: 10, weakest: 0.2, strongest: 1, recovery: shaken},
	{kind: StallLinks, weight: 2, least: 4, most: 10, weakest: 0.2, strongest: 1, recovery: shaken},
	{kind: Farther, victim: minority, weight: 2, least: 4, most: 10, amounts: []time.Duration{2 * time.Millisecond, 30 * time.Millisecond, 200 * time.Millisecond}, recovery: shaken}, // its clock is read anew
	{kind: SlowInTime, victim: minority, weight: 1, least: 2, most: 6, recovery: shaken},
	{kind: FlushInVote, victim: cluster, weight: 3, least: 0.2, most: 1, recovery: forgetful, forgets: true},
	{kind: TurnInVote, victim: cluster, weight: 3, least: 0.2, most: 1, recovery: forgetful, forgets: true},
	{kind: StepForwardInVote, victim: cluster, weight: 1, least: 0.2, most: 1, weakest: 0.1, strongest: 5, recovery: forgetful},
	{kind: StepBackInVote, victim: cluster, weight: 1, least: 0.2, most: 1, weakest: 0.1, strongest: 5, recovery: forgetful},
	{kind: StopClient, victim: client, weight: 4, least: 0.1, most: 3},
	{kind: KillClient, victim: client, weight: 1, most: 0.5},
	{kind: HotKey, victim: clients, weight: 1, least: 4, most: 8},
	{kind: BlockCallbacks, victim: client, weight: 1, least: 1, most: 4},
	{kind: PanicCallbacks, victim: client, weight: 1, least: 0.2, most: 2},
}

// Recovery is how long after a fault of this kind a node may still not vote, where
// leases last this long.
func (k Kind) Recovery(lease time.Duration) time.Duration {
	return leases(habitOf(k).recovery, lease)
}

// Loses reports whether behind a fault of this kind leases may end early, or be left with nobody to
// release them.
func (k Kind) Loses() bool { return habitOf(k).recovery == forgetful || k == KillClient }

// forgets reports whether a fault of this kind may lose votes and fences.
func (k Kind) forgets() bool { return habitOf(k).forgets }

func habitOf(k Kind) habit {
	for _, h := range habits {
		if h.kind == k {
			return h
		}
	}
	return habit{}
}

// Kinds returns all kinds.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(habits))
	for _, h := range habits {
		kinds = append(kinds, h.kind)
	}
	return kinds
}

func leases(n float64, lease time.Duration) time.Duration {
	return time.Duration(n * float64(lease))
}
