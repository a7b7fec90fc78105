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
//	lock, err := locker.Acquire(ctx, "orders:42", redlock.WithMaxWait(time.Second))
//	if errors.Is(err, redlock.ErrTaken) {
//		return errBusy
//	} else if err != nil {
//		return err
//	}
//	defer lock.Release()
//	return settle(lock.Context(), order)
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
// [Locker.Do] holds a lock while a function runs. Waiters of one Locker are served in their order:
// a release hands the lock to the first. It wakes waiters of other processes over the channel
// "ql:free:" and the key.
//
// # What the user's ACL has to allow
//
//	locks                  ~KEYS +set +get +del +pttl +pexpire +eval +evalsha +info +time
//	waiters are woken      &ql:free:* +publish +subscribe +unsubscribe +pubsub +ping +echo
//	WithFairness           ~ql:line:{KEYS} ~ql:line=KEYS +zadd +zrem +zscore +zrangebyscore
//	WithDeadlockDetection  ~ql:waits:{KEYS} ~ql:waits=KEYS +hset +hget +hdel +hgetall
//	AcquireAll             ~ql:line:{KEYS} ~ql:line=KEYS +zadd +zrem +zscore +zrangebyscore
//	Semaphore              ~ql:slot:{KEYS}* ~ql:slot=KEYS ~ql:permits:{KEYS} ~ql:permits=KEYS ~ql:pool:{KEYS} ~ql:pool=KEYS +zadd +zrem +zscore +zrangebyscore +exists
//	AcquireShared          ~ql:readers:{KEYS} ~ql:readers=KEYS ~ql:line:{KEYS} ~ql:line=KEYS +zadd +zrem +zscore +zcard +zcount +zrange +zrangebyscore +pexpireat +unlink
//	WithFences             ~ql:fences:* +zadd +zscore +zrange +zremrangebyscore
//	WithRestartGuard       ~ql:memory:PREFIX +hmget +hset
//	Durability.Replicas    +wait
//	Durability.Disk        +waitaof
//
// KEYS is PREFIX*, and PREFIX that of [WithKeyPrefix]; without one, ":PREFIX" falls away. Without
// channels waiters poll, and [NodeMuted] reports it. Without scripts the server's own commands
// (DELIFEQ, DELEX, CAD, CAS, SET with IFEQ) replace them for plain locks, if it has them and they
// are allowed; otherwise [NodeLimited] says what does not work. Without a command that an acquire,
// or what follows it, needs, the node gives no vote, and the error is an [ErrNode] that names it.
//
// # What all clients of a key share
//
// Clients that differ in the prefix ([WithKeyPrefix]), in the database number (the path of a URL,
// or a client's setting) or in the nodes hold independent locks on one key, and nothing reports it.
// Keep the three in one place of the configuration.
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
// An Extend that fails with ErrNoQuorum leaves the deadline as it was; the lock is lost
// at its deadline, not before. After a failed Release the key expires by its TTL at the
// latest, and the Locker goes on deleting it where it can.
//
// # Time
//
// Leases are measured with a clock that counts the machine's sleep (see package clockdrift).
// Servers need Redis 7.0 or later, or Valkey, Redict or another server with SET NX GET.
package redlock
