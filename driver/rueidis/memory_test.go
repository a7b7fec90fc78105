package rueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// memory is a server in this process.
type memory struct{ redisserver.Memory }

// newMemory returns a server some of whose answers come from instead, one at a time. It may be
// nil.
func newMemory(instead func(args []string) (reply string, ok bool)) *memory {
	m := new(memory)
	if instead != nil {
		var mu sync.Mutex
		m.Instead = func(args []string) (string, bool) {
			mu.Lock()
			defer mu.Unlock()
			return instead(args)
		}
	}
	return m
}

// dial is a rueidis.ClientOption.DialCtxFn.
func (m *memory) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return m.Dial(), nil
}
