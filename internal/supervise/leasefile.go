package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A LeaseFile tells a program how long its lock lasts. It is in a folder of its own, readable to
// this user only, and is replaced as a whole. It is removed when the program is asked to end.
type LeaseFile struct {
	name   string
	fields leaseFields
}

// leaseFields are what is in the file.
type leaseFields struct {
	Keys  []string      `json:"keys"`
	Pid   int           `json:"pid"` // of who holds the lock
	Fence int64         `json:"fence,omitempty"`
	Until time.Time     `json:"until"`
	At    time.Duration `json:"at"`              // the same by the shared clock
	Outer string        `json:"outer,omitempty"` // the file of the lock under which this one was taken
}

// NewLeaseFile makes a place for the file of a lock on these keys: in the folder of $XDG_RUNTIME_DIR, or
// else in that for temporary files. The variable may name a folder that is not there, has no room, or
// is another user's, as behind su and in cron: then it is as if it was not set. Outer is the file of
// the lock under which this one was taken, or "". The file is there at once, and says that the lock is
// over: so a disk without room is an error here, before a lock is taken.
func NewLeaseFile(keys []string, fence int64, outer string) (*LeaseFile, error) {
	f := &LeaseFile{fields: leaseFields{Keys: keys, Pid: os.Getpid(), Fence: fence, Outer: outer}}
	var err error
	if own := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(own) {
		if err = f.makeIn(own); err == nil {
			return f, nil
		}
	}
	if temporary := f.makeIn(os.TempDir()); temporary != nil {
		return nil, errors.Join(err, temporary)
	}
	return f, nil
}

// makeIn makes the file in a new folder, or leaves nothing there.
func (f *LeaseFile) makeIn(parent string) error {
	folder, err := os.MkdirTemp(parent, "quorumlock-")
	if err != nil {
		return err
	}
	f.name = filepath.Join(folder, "lease")
	if err = f.write(0); err != nil {
		f.Remove()
	}
	return err
}

// Name returns the file's path, or "" if there is no file.
func (f *LeaseFile) Name() string {
	if f == nil {
		return ""
	}
	return f.name
}

// write replaces the file by one with another deadline. There may be no file.
func (f *LeaseFile) write(deadline time.Duration) error {
	if f == nil {
		return nil
	}
	f.fields.At, f.fields.Until = deadline, wall(deadline).UTC()
	text, _ := json.Marshal(f.fields) // there is nothing in it that JSON does not know
	if err := os.WriteFile(f.name+fresh, append(text, '\n'), 0o600); err != nil {
		_ = os.Remove(f.name + fresh) // what there is of it
		return err
	}
	return os.Rename(f.name+fresh, f.name)
}

// fresh ends the name of a file that is not yet in its place.
const fresh = ".new"

// Remove removes the file and its folder. It may be called twice.
func (f *LeaseFile) Remove() { removeLease(f.Name()) }

func removeLease(name string) {
	if name != "" {
		_, _, _ = os.Remove(name+fresh), os.Remove(name), os.Remove(filepath.Dir(name)) // what is there
	}
}

// Left returns how long the lock of a lease file lasts: 0 if it is over, or lost. The error is
// of a file that says nothing.
func Left(name string) (time.Duration, error) {
	fields, err := readLease(name)
	return max(fields.At-now(), 0), err
}

// HolderOf returns the process that holds one of the keys around this one, by the lease file of the
// lock under which this process runs and those around it. 0: none does.
func HolderOf(keys []string, name string) (pid int) {
	for name != "" {
		fields, err := readLease(name)
		if err != nil {
			return 0
		}
		has := func(key string) bool { return slices.Contains(fields.Keys, key) }
		if fields.At > now() && slices.ContainsFunc(keys, has) {
			return fields.Pid
		}
		name = fields.Outer
	}
	return 0
}

// readLease reads a lease file. One that is gone is of a lock that is over.
func readLease(name string) (fields leaseFields, err error) {
	text, err := os.ReadFile(name) //nolint:gosec // the environment says which
	if errors.Is(err, fs.ErrNotExist) {
		return fields, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return leaseFields{}, fmt.Errorf("supervise: lease file: %w", err)
	}
	return fields, nil
}
