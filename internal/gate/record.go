package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// The guard keeps three records on each node, of the clients of one key prefix: see [RecordKey].
//
//	ql:epoch    = "v1" SP nonce *ext                    set where it is missing
//	ql:admitted = "v1" SP replid SP nonce SP ms *ext    set by who has sat out a quarantine
//	ql:set      = "v1" SP entry *("," entry) *ext       set where it is missing
//
//	entry  = id ":" size *("+" size) "@" ("0" / group *("+" group))
//	ext    = SP name "=" value
//	name   = lower *(lower / digit / "-")    a reader may ignore it
//	       / UPPER *(UPPER / digit / "-")    a reader must understand it
//	value  = 1*VCHAR                         visible ASCII
//	nonce  = 32 hex digits, lower case       replid = 40 of them
//	ms, id, size, group = decimal without leading zeros, below 2^63; a group is not 0
//
// The format never changes, for clients of two formats would each take the other's nodes
// for not admitted. What does not follow it closes the node: see [RecordError].
const (
	EpochKey  = "ql:epoch"
	MarkerKey = "ql:admitted"
	SetKey    = "ql:set"
)

// RecordKey names a record of the clients with this key prefix: ql:set:PREFIX, and ql:set if there
// is none.
func RecordKey(prefix, record string) string {
	if prefix == "" {
		return record
	}
	return record + ":" + prefix
}

// patterns are those of an ACL that allow the records.
func (all *Restarts) patterns() (patterns string) {
	for _, record := range RecordKeys {
		patterns += " ~" + RecordKey(all.Prefix, record)
	}
	return patterns
}

// RecordKeys are the records in the order in which they are read.
var RecordKeys = [...]string{EpochKey, MarkerKey, SetKey}

const recordVersion = "v1"

// A Marker admits one history of a node: the one that began with this master_replid, as
// long as nothing has removed all keys.
type Marker struct {
	Replid, Nonce string
	Ms            int64 // the longest TTL that was waited out
}

// A NodeEntry says what a node is in one configuration of the node set.
type NodeEntry struct {
	ID      uint64
	Sizes   []uint64 // of the groups
	Retired bool     // the node has no vote there; otherwise it is in a group
}

// FormatEpoch is the record of an epoch: a nonce tells a node's keys from those before a FLUSHALL,
// so each sending has its own.
func FormatEpoch(nonce string) string { return recordVersion + " " + nonce }

func (m Marker) String() string {
	return recordVersion + " " + m.Replid + " " + m.Nonce + " " + strconv.FormatInt(m.Ms, 10)
}

// ofMilliseconds is the longest TTL that a marker speaks of. No client takes one beyond
// [protocol.MaxTTL]; ten of them can still be waited out.
func ofMilliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, 10*protocol.MaxTTL.Milliseconds())) * time.Millisecond
}

// FormatSet is the record of a node in the one group of a configuration.
func FormatSet(id uint64, size int) string {
	return fmt.Sprintf("%s %d:%d@1", recordVersion, id, size)
}

// A RecordError is a record that this client cannot read. The client does not write to that
// node, nor wait for its quarantine: who wrote the record may know rules that it does not.
// The record's text is not shown, for it may be somebody's token.
type RecordError struct {
	Key string
	Why error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%v: its key %q %v", fault.ErrNode, e.Key, e.Why)
}

// Is makes the error match [fault.ErrNode].
func (e *RecordError) Is(target error) bool { return target == fault.ErrNode }

// Why a record cannot be read.
var (
	ErrNotRecord = errors.New("is no record of the guard's: who else uses the key? Delete it, and the node sits out once")
	ErrNewer     = errors.New("was written by a newer version of the library: update this client")
	ErrExtension = errors.New("has an extension that this client does not know and must: update it")
)

// ParseEpoch reads an epoch.
func ParseEpoch(text string) (nonce string, err error) {
	fields, err := recordFields(text, 1)
	if err != nil {
		return "", err
	}
	if !isHex(fields[0], 32) {
		return "", ErrNotRecord
	}
	return fields[0], nil
}

// ParseMarker reads a marker.
func ParseMarker(text string) (m Marker, err error) {
	fields, err := recordFields(text, 3)
	if err != nil {
		return m, err
	}
	ms, ok := decimal(fields[2])
	if !isHex(fields[0], 40) || !isHex(fields[1], 32) || !ok {
		return m, ErrNotRecord
	}
	return Marker{fields[0], fields[1], int64(ms)}, nil //nolint:gosec // it is below 2^63
}

// ParseSet reads a node set.
func ParseSet(text string) (entries []NodeEntry, err error) {
	fields, err := recordFields(text, 1)
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(fields[0], ",") {
		e, ok := parseEntry(entry)
		if !ok {
			return nil, ErrNotRecord
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func parseEntry(text string) (e NodeEntry, ok bool) {
	id, rest, ok1 := strings.Cut(text, ":")
	sizes, groups, ok2 := strings.Cut(rest, "@")
	e.ID, ok = decimal(id)
	if !ok || !ok1 || !ok2 {
		return e, false
	}
	for size := range strings.SplitSeq(sizes, "+") {
		n, ok := decimal(size)
		if !ok {
			return e, false
		}
		e.Sizes = append(e.Sizes, n)
	}
	if e.Retired = groups == "0"; e.Retired {
		return e, true
	}
	for group := range strings.SplitSeq(groups, "+") {
		if n, ok := decimal(group); !ok || n == 0 {
			return e, false
		}
	}
	return e, true
}

// recordFields returns the fields of a record of our version. Its extensions must be ones
// that may be ignored: there are no others yet.
func recordFields(text string, count int) ([]string, error) {
	version, rest, _ := strings.Cut(text, " ")
	if version != recordVersion {
		if n, ok := decimal(strings.TrimPrefix(version, "v")); ok && n > 1 && version[0] == 'v' {
			return nil, ErrNewer
		}
		return nil, ErrNotRecord
	}
	fields := strings.Split(rest, " ")
	if len(fields) < count {
		return nil, ErrNotRecord
	}
	unknown := false
	for _, extension := range fields[count:] {
		name, value, _ := strings.Cut(extension, "=")
		upper, ok := extensionName(name)
		if !ok || !isVisible(value) {
			return nil, ErrNotRecord
		}
		unknown = unknown || upper
	}
	if unknown {
		return nil, ErrExtension
	}
	return fields[:count], nil
}

// extensionName reads the name of an extension: upper says that it must be understood.
func extensionName(name string) (upper, ok bool) {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z' && !upper:
		case c >= 'A' && c <= 'Z' && (upper || i == 0):
			upper = true
		case (c >= '0' && c <= '9' || c == '-') && i > 0:
		default:
			return upper, false
		}
	}
	return upper, name != ""
}

func isVisible(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return text != ""
}

func isHex(text string, length int) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(text) == length
}

// decimal reads a number without leading zeros.
func decimal(text string) (n uint64, ok bool) {
	if text == "" || len(text) > 1 && text[0] == '0' || text[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return n, err == nil && n <= math.MaxInt64
}

// lists reports whether a node with these entries votes in a configuration of one group.
func lists(entries []NodeEntry, id uint64, size int) (listed, retired bool) {
	for _, e := range entries {
		if e.ID == id && slices.Equal(e.Sizes, []uint64{uint64(size)}) { //nolint:gosec // it counts nodes
			listed, retired = true, retired || e.Retired
		}
	}
	return listed, retired
}
