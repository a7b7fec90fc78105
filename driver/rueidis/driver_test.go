package rueidis_test

import (
	"context"
	"testing"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver/drivertest"
	"github.com/quorumlock/quorumlock/driver/rueidis"
)

func TestDriver(t *testing.T) {
	for name, option := range map[string]client.ClientOption{
		"defaults": {},
		// The settings that rueidis serves in the least usual ways, and the smallest
		// ring that the package's doc allows.
		"unusual": {DisableAutoPipelining: true, AlwaysRESP2: true, DisableCache: true, RingScaleEachConn: 4, BlockingPipeline: 2},
	} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
				option.InitAddress = []string{addr}
				c, err := client.NewClient(option)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				nodes, err := rueidis.Nodes(c)
				if err != nil {
					t.Fatal(err)
				}
				return drivertest.Subject{
					Driver: driverOf(t, nodes[0]),
					Deaf:   true, // by an error, rueidis drops the replies before it
					Stranger: func(ctx context.Context, args ...string) error {
						return c.Do(ctx, c.B().Arbitrary(args...).Build()).Error()
					},
				}
			})
		})
	}
}

func TestOpenedDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T, addr string) drivertest.Subject {
		nodes, err := rueidis.Open("redis://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		return drivertest.Subject{Driver: driverOf(t, nodes[0])}
	})
}
