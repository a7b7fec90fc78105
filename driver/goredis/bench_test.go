package goredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
)

// BenchmarkDo sends what an acquire sends, to a server on the loopback.
func BenchmarkDo(b *testing.B) {
	d := open(b, redis.NewClient(&redis.Options{Addr: start(b).Addr}))
	for _, size := range []int{1, 16, 128} {
		cmds := make([]driver.Command, size)
		for i := range cmds {
			cmds[i] = command("SET", fmt.Sprintf("orders:%d", i), "0123456789abcdef0123456789abcdef", "NX", "PX", "10000")
		}
		ctx := within(b, time.Hour)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if replies, err := d.Do(ctx, cmds); err != nil || len(replies) != size {
					b.Fatalf("Do = %d replies, %v", len(replies), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/command")
		})
	}
}
