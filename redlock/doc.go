// Package redlock takes locks that many machines share, on N independent
// Redis-compatible masters, by the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// A lock is held when a quorum of N/2+1 nodes has granted its key to one random
// token. As long as a quorum of nodes works, locks are taken, extended and released;
// a minority may be dead, hung, slow, or hold something else.
//
//	nodes, err := goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")
//	if err != nil {
//		return err
//	}
//	locker, err := redlock.New(nodes)
//	if err != nil {
//		return err
//	}
//	defer locker.Close()
//
//	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithMaxWait(time.Second))
//	if errors.Is(err, redlock.ErrTaken) {
//		return errBusy
//	} else if err != nil {
//		return err
//	}
//	defer lock.Release(context.WithoutCancel(ctx))
//	return settle(lock.Context(), order)
//
// # What a lock promises
//
// A lock is a lease. Between the return of Acquire and [Lock.Until] nobody else is
// granted the key, on three assumptions: the clocks of the nodes and of this machine
// run at about the same speed (see [WithDriftFactor]), and no node's is set forward
// ([WithClockGuard] keeps out one that was); a node that was restarted without its data
// stays away for one TTL ([WithRestartGuard] sees to that); and this process is not
// stopped for so long that it acts upon a check that is out of date. [Lock.Context]
// ends at the deadline by a local timer, whatever the network does.
//
// What a lease cannot do is keep a process that was stopped in the wrong moment from
// sending one late write. Where that must not happen, the store itself has to refuse it,
// by the number of its writer's lock: see [WithFences], [Lock.Fence], and package fence.
// Why all of this holds: docs/safety.md in the repository.
//
// # Holding and waiting
//
// [Locker.Do] holds a lock while a function runs; [WithRenewal] keeps one alive from
// its acquire to its release. Waiters of one Locker are served in the order in which
// they came, and are handed a lock that is released here; those of other processes are
// woken by it, over the channel "ql:free:" and the key.
//
// # What the user's ACL has to allow
//
//	locks                  ~KEYS +set +get +del +pttl +pexpire +eval +evalsha +info +time
//	waiters are woken      &ql:free:* +publish +subscribe +unsubscribe +pubsub +ping +echo
//	WithFences             ~{KEYS}:fence +zadd +zscore
//	WithRestartGuard       ~PREFIXql:* +mget
//	WithReplicatedVotes    +wait
//	WithDurableVotes       +waitaof
//
// {KEYS}:fence is KEYS:fence for a key that has a hash tag, and PREFIX that of
// [WithKeyPrefix]. Where channels are forbidden, waiters poll, and [NodeMuted] says so. Where scripts are,
// the server's own commands stand in for them (DELIFEQ, DELEX, CAD, CAS, SET with IFEQ),
// if it has them and they are allowed, or [NodeLimited] says what does not work.
//
// # What all clients of a key share
//
// A lock is a key: a name behind a prefix ([WithKeyPrefix]), in one database of each of the
// nodes. Clients that differ in the prefix, in the database number (the path of a URL, or
// the setting of a client) or in the nodes hold independent locks on the same key, and
// nothing reports it. Keep the three in one place of the configuration.
//
// # What Extend and Release return
//
//	the lock is …                        Extend          Release
//	held                                 nil             nil
//	held, unknown at a minority          nil             nil
//	held, unknown at a majority          ErrNoQuorum     ErrNoQuorum
//	expired (its deadline has passed)    ErrLost         ErrLost, what is left is deleted
//	expired, unknown at a majority       ErrLost         ErrLost and ErrNoQuorum
//	expired, with a token of one's own   ErrLost         ErrLost, nothing is deleted
//	taken over at a majority             ErrLost         ErrLost
//	taken over at a minority             nil             nil
//	released or abandoned before         ErrReleased     ErrReleased
//	gone from all nodes (FLUSHALL)       nil, set again  ErrLost
//	held by a Locker that was closed     ErrClosed       ErrClosed
//	in any state, when ctx ends first    ctx's error     ctx's error, and ErrLost if it was lost
//	held for all of WithMaxHold          ErrOption       nil
//
// An Extend that fails with ErrNoQuorum leaves the deadline as it was; the lock is lost
// when that passes, not before. After a Release that fails the key goes away by itself,
// by its TTL at the latest, and the Locker goes on to delete it where it can.
//
// # Which error to test for first
//
// Errors are tested with errors.Is, and one error may match several. Where two match, this
// order says what to do:
//
//	ErrOption                  mend the call: nothing was sent
//	ErrClosed, ErrReleased     it is over, by your own doing
//	ErrDeadlock                use the lock that the context has
//	ErrLost                    stop the work: somebody else may have the key
//	ErrTaken                   somebody else has it: come back later, or skip
//	ErrContended, ErrExpired   try again
//	ErrFence                   try again; mend what the message names
//	ErrNoQuorum                too few nodes: ErrNode, ErrNodeSet and ErrQuarantine beside it say why
//	the context's error        the caller gave up; what was begun is undone in the background
//
// # Time
//
// Durations are time.Duration everywhere. Leases are measured with a clock that counts
// the time that the machine sleeps (see package clockdrift). Servers need Redis 7.0 or
// later, or Valkey, Redict or another server with SET NX GET.
package redlock
