package protocol

import (
	"strconv"
	"strings"
)

// Reserved begins the names of all keys of the library's own, and of no lock.
const Reserved = "ql:"

// The roles of keys beside a lock's.
const (
	RoleReaders = "readers" // who shares it
	RolePermits = "permits" // how many permits its semaphore has
	RoleLine    = "line"    // who waits for it
	RolePool    = "pool"    // who waits for permits of its semaphore
	RoleWaits   = "waits"   // for what its holders wait
	roleSlot    = "slot"    // a permit of its semaphore, which is a key like any
)

// Beside names the key of a role beside a key, as the nodes know it: ql:ROLE=KEY if the
// key has a hash tag, and ql:ROLE:{KEY} if it has no closing brace. So a Redis Cluster has both on
// one server, no two of these names are equal, and none is a lock's, because no lock's begins with
// [Reserved]. Of any other key, see [HasNames], the name is nobody else's either, but may be on
// another server.
func Beside(role, key string) string {
	if strings.IndexByte(key, '}') < 0 {
		return Reserved + role + ":{" + key + "}"
	}
	return Reserved + role + "=" + key
}

// HasNames reports whether a key can have others beside it: it has a hash tag, or no closing brace.
func HasNames(key string) bool { return strings.IndexByte(key, '}') < 0 || hashTag(key) != key }

// SlotKey names a slot of the semaphore of a key.
func SlotKey(key string, slot int) string {
	name, number := Beside(roleSlot, key), strconv.Itoa(slot)
	if strings.IndexByte(key, '}') < 0 {
		return name + number
	}
	return name + ":" + number
}

// SlotOf returns the key of a semaphore and the number of its slot, by the name of the slot.
func SlotOf(name string) (key string, slot int, ok bool) {
	rest, ok := strings.CutPrefix(name, Reserved+roleSlot)
	if !ok {
		return "", 0, false
	}
	end := strings.LastIndexAny(rest, "}:")
	if key, ok = strings.CutPrefix(rest, "="); !ok {
		key, ok = strings.CutPrefix(rest, ":{")
	}
	start := len(rest) - len(key)
	if !ok || end < start {
		return "", 0, false
	}
	key = rest[start:end]
	slot, err := strconv.Atoi(rest[end+1:])
	return key, slot, err == nil && slot >= 0 && slot < MaxPermits && SlotKey(key, slot) == name
}

// IsReserved reports whether a key behind a prefix has a name of the library's own.
func IsReserved(prefix, key string) bool {
	n := min(len(prefix), len(Reserved))
	return prefix[:n] == Reserved[:n] && strings.HasPrefix(key, Reserved[n:])
}

// hashTag is the part of a key that says where a Redis Cluster keeps it.
func hashTag(key string) string {
	if from := strings.IndexByte(key, '{'); from >= 0 {
		if length := strings.IndexByte(key[from+1:], '}'); length > 0 {
			return key[from+1:][:length]
		}
	}
	return key
}
