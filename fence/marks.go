package fence

// Marks are what a store keeps beside what a shared lock protects: the greatest numbers that a
// writer and a reader have offered, of those that were accepted. The zero value is that of a
// store where nobody was yet.
//
// A reader's number (Lock.Fence of package redlock) is at least that of every writer before
// and less than that of every one after; readers may share one. So a late writer is refused once
// a reader behind it was here, and what the reader saw stays true for as long as it holds the lock.
// No holder whose lease runs is ever refused.
type Marks struct {
	Written int64
	Read    int64
}

// Read compares the number that a reader offers with the marks, and returns them as they are behind
// the read. The error is a [StaleError] if a later writer was here, or matches [ErrMissing]; then
// the marks are as they were.
//
// The caller keeps the new marks in the transaction that also reads the old ones, and what the
// reader asked for.
func Read(m Marks, offered int64) (Marks, error) {
	if err := Check(m.Written, offered); err != nil {
		return m, err
	}
	m.Read = max(m.Read, offered)
	return m, nil
}

// Write does the same for a writer (Lock.Fence). Its number is stale as well if a reader had the
// same one or a greater one: then the writer is a reader itself by now, or has lost the lock. A
// store with a language of its own compares there:
//
//	UPDATE accounts SET balance = ?1, written = ?2 WHERE id = ?3 AND written <= ?2 AND read < ?2
func Write(m Marks, offered int64) (Marks, error) {
	if err := Check(m.Written, offered); err != nil {
		return m, err
	}
	if offered <= m.Read {
		return m, &StaleError{Last: m.Read, Offered: offered, ByReader: true}
	}
	m.Written = offered
	return m, nil
}
