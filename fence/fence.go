// Package fence is for the other side of a lock: the store or the service that the lock
// protects.
//
// A lease ends by the clock, whether or not its holder has noticed. A holder that was
// paused writes late, when somebody else has the lock, and only the receiver can refuse
// that write. So holders send the number of their lock along (Lock.Fence of package
// redlock, with WithFences), and the receiver refuses a number below the greatest so far.
//
// The numbers promise: of two locks of a key, a lock that was asked for after the other
// was held has the greater number, whatever leases and clocks do, with any minority of
// the nodes dead. They do not promise:
//
//   - Order over nodes that forget accepted numbers, by a restart without their data:
//     use redlock's WithRestartGuard as well.
//   - Anything before the receiver has seen the greater number: a late write is accepted
//     until then. A holder that reads, and writes by the result, shows the number with
//     the read.
//   - Anything at a receiver that does not compare, or forgets the greatest number.
//
// The idea, and why a lease is not enough: Martin Kleppmann, "How to do distributed locking"
// (2016), https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html. The
// reply, which asks why a store that can refuse late writes needs a strong lock: antirez, "Is Redlock safe?" (2016), https://antirez.com/news/101.
package fence

import (
	"errors"
	"fmt"
)

var (
	// ErrStale says that a later holder of the lock was here before: the caller with this number has lost
	// the lock, and has to acquire it and begin again.
	ErrStale = errors.New("stale fence")

	// ErrMissing says that the offered number is not the number of a lock, which is above 0. Give the Locker
	// of the caller redlock.WithFences.
	ErrMissing = errors.New("no fence")
)

// StaleError is a number that comes too late. It matches [ErrStale].
type StaleError struct {
	Last    int64 // the greatest number so far
	Offered int64 // a smaller number, or the same by a writer
	// ByReader: a reader offered Last, and a writer Offered.
	ByReader bool
}

func (e *StaleError) Error() string {
	if e.ByReader {
		return fmt.Sprintf("fence: %d is stale: a reader with %d was seen before", e.Offered, e.Last)
	}
	return fmt.Sprintf("fence: %d is stale: %d was seen before", e.Offered, e.Last)
}

// Is makes the error match [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Check compares the number that a writer offers with the greatest that was seen, or 0
// before the first. It returns nil if the offered one is as great (a holder may write more
// than once) or greater, else a [StaleError], or an error that matches [ErrMissing].
//
// The caller keeps an accepted number as the new last one, in the transaction that also
// reads the last one, compares and writes. Between two transactions a later holder could
// come and go. A store with a language of its own compares there:
//
//	UPDATE accounts SET balance = ?1, fence = ?2 WHERE id = ?3 AND fence <= ?2
func Check(last, offered int64) error {
	switch {
	case offered <= 0:
		return fmt.Errorf("fence: %w: %d was offered", ErrMissing, offered)
	case offered < last:
		return &StaleError{Last: last, Offered: offered}
	}
	return nil
}
