package redlocktest

import (
	"context"
	"net"
	"testing"

	"github.com/quorumlock/quorumlock/driver/drivertest"
)

func TestClientKeepsTheContract(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		c := newClient(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		})
		t.Cleanup(func() { _ = c.Close() }) // is always nil
		return drivertest.Subject{Driver: c}
	})
}
