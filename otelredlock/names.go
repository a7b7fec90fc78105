package otelredlock

import (
	"slices"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/redlock"
)

// The values of attributes are bounded, because each one is a time series of its own.
const (
	mostNames = 200
	mostCodes = 50
	other     = "_other" // of our own attributes
	otherType = "_OTHER" // of error.type, as the semantic conventions have it
)

// A vocabulary is at most so many different words, and one for all others.
type vocabulary struct {
	most  int
	other string

	mu    sync.RWMutex
	known map[string]bool
}

// of returns the word, if it is one of the first, or that for all others.
func (v *vocabulary) of(word string) string {
	v.mu.RLock()
	known := v.known[word]
	v.mu.RUnlock()
	if known {
		return word
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.known[word]: // others have come first
		return word
	case word == "" || len(v.known) >= v.most:
		return v.other
	case v.known == nil:
		v.known = make(map[string]bool)
	}
	v.known[word] = true
	return word
}

// name returns the name of what an acquire is about, or "" without [WithKeyName]. A function of the
// user that panics must not take a lock along.
func (t *Telemetry) name(a redlock.AcquireStart) (name string) {
	if t.options.keyName == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			name = other
		}
	}()
	if len(a.Keys) == 0 {
		return t.names.of(text(t.options.keyName(a.Key)))
	}
	var names []string
	for _, key := range a.Keys {
		names = append(names, text(t.options.keyName(key)))
	}
	slices.Sort(names)
	return t.names.of(strings.Join(slices.Compact(names), ","))
}

// text makes valid UTF-8 of bytes, for exporters drop a whole export with an attribute that is
// none.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
