// Package programtest is what the tests of several examples share.
package programtest

import (
	"strings"
	"sync"
)

// Trigger is an output that calls Do, once, when something was written that contains On.
type Trigger struct {
	On   string
	Do   func()
	once sync.Once
}

func (tr *Trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), tr.On) {
		tr.once.Do(tr.Do)
	}
	return len(p), nil
}
