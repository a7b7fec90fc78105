package rueidis_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// BenchmarkDo measures one caller with batches of SET NX against a local server; an op
// is a batch.
func BenchmarkDo(b *testing.B) {
	client := newClient(b, redisserver.Start(b).Addr)
	nodes, err := rueidis.Nodes(client)
	if err != nil {
		b.Fatal(err)
	}
	d := driverOf(b, nodes[0])
	for _, size := range []int{1, 16, 128} {
		batch := make([]driver.Command, size)
		for i := range batch {
			batch[i] = command("SET", "key:"+strconv.Itoa(i), "token", "NX", "PX", "10000")
		}
		do(b, d, batch...)
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Do(ctx, batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/command")
		})
	}
}
