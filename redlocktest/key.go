package redlocktest

import (
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// The methods here look into database 0 past the protocol: they count no command,
// and work while the node hangs or is stopped.

// Get returns the string at key, and whether there is one.
func (n *Node) Get(key string) (value string, found bool) {
	value, err := n.data().Get(key)
	return value, err == nil
}

// Keys returns all keys, of any type, sorted.
func (n *Node) Keys() []string {
	keys := n.data().Keys()
	slices.Sort(keys)
	return keys
}

// TTL returns how long the key has to live, and 0 where it has no end or is not
// there.
func (n *Node) TTL(key string) time.Duration {
	return n.data().TTL(key)
}

// Set puts a string at key in place of whatever is there, as somebody else would.
// Without an end where ttl is 0.
func (n *Node) Set(key, value string, ttl time.Duration) {
	data := n.data()
	data.Del(key)
	_ = data.Set(key, value) // fails on a key of another type only
	if ttl > 0 {
		data.SetTTL(key, ttl)
	}
}

// Take lets somebody else hold the key for so long, or for ever with a time of at most 0.
func (n *Node) Take(key string, ttl time.Duration) { n.Set(key, "somebody else", ttl) }

// Del takes the key away, as an eviction does.
func (n *Node) Del(key string) {
	n.data().Del(key)
}

// FastForward takes d off all leases, as if that time had passed at this node alone.
// Its TIME stays.
func (n *Node) FastForward(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.engine.FastForward(d)
}

// data lets the commands that are being executed end first.
func (n *Node) data() *miniredis.RedisDB {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.engine.DB(0)
}
