// Package redlock takes locks that many machines share, on N independent
// Redis-compatible masters, by the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// A lock is held when a quorum of N/2+1 nodes has granted its key to one random token. A minority
// may be dead, hung, slow, or hold another token.
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
//	err = locker.Do(ctx, "orders:42", func(ctx context.Context) error {
//		return settle(ctx, order) // alone; ctx ends if the lock is lost
//	}, redlock.WithMaxWait(time.Second))
//	if errors.Is(err, redlock.ErrTaken) {
//		return errBusy
//	}
//	return err // ErrLost: settle may not have been alone to its end
//
// # What a lock promises
//
// A lock is a lease. Between the return of Acquire and [Lock.Until] nobody else is granted the key,
// on three assumptions: the clocks of the nodes and of this machine run at about the same speed
// ([WithDriftFactor]), and no node's clock is set forward ([WithClockGuard] sees it); a node that
// restarts without its data stays away for one TTL ([WithRestartGuard] enforces it); and this
// process is not paused past the deadline between a check and the act that relies on it.
//
// A lease cannot stop a paused process from sending one late write. Where that does harm, the store
// has to refuse it, by the number of its writer's lock: see [WithFences] and package fence. The
// reasons are in docs/safety.md in the repository.
//
// # Holding and waiting
//
// [Locker.Do] holds a lock while a function runs. For one that outlives the function, take
// [Locker.Acquire], work under [Lock.Context], and check what [Lock.Release] returns. Waiters of one
// Locker are served in their order: a release hands the lock to the first. It wakes waiters of other
// processes over the channel "ql:free:" and the key.
//
// # What nodes have to allow
//
// Servers need Redis 7.0 or later, or Valkey, Redict or another server with SET NX GET. The rights of
// the ACL that each feature needs are in docs/operations.md, and `quorumlock doctor` tests them. A node
// without a command that an acquire needs gives no vote, and the error is an [ErrNode] that names it.
//
// # What all clients of a key share
//
// Clients that differ in the prefix ([WithKeyPrefix]), in the database number or in the nodes hold
// independent locks on one key, and nothing reports it. Keep the three in one place.
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
//	in any state, when ctx ends first    ctx's error     takes no context
//	held for all of WithMaxHold          ErrOption       nil
//
// An Extend that fails with ErrNoQuorum leaves the deadline as it was. After a failed Release the
// key expires by its TTL at the latest, and the Locker goes on deleting it where it can. Leases are
// measured with a clock that counts the machine's sleep (see package clockdrift).
package redlock
