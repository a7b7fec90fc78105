package redigo_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// BenchmarkDo compares the driver, over a pool whose connections are kept and over
// one from which each call takes its own, with the client's own pipeline on one
// connection: that is what the transport itself costs.
func BenchmarkDo(b *testing.B) {
	server := redisserver.Start(b)
	for _, size := range []int{1, 16, 128} {
		cmds := make([]driver.Command, size)
		for i := range cmds {
			cmds[i] = command("SET", "key "+strconv.Itoa(i), strings.Repeat("token ", 5), "NX", "PX", "30000")
		}
		name := "batch=" + strconv.Itoa(size)
		b.Run("way=kept/"+name, func(b *testing.B) {
			benchDriver(b, newDriver(b, newPool(b, server.Addr)), cmds)
		})
		b.Run("way=borrowed/"+name, func(b *testing.B) {
			pool := newPool(b, server.Addr)
			pool.MaxIdle, pool.MaxActive = 7, 7
			benchDriver(b, newDriver(b, pool), cmds)
		})
		b.Run("way=client/"+name, func(b *testing.B) {
			conn, err := redis.Dial("tcp", server.Addr)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			b.ReportAllocs()
			for b.Loop() {
				for _, cmd := range cmds {
					_ = conn.Send("SET", cmd.Args[1:]...)
				}
				if _, err := conn.Do(""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchDriver gives each batch a deadline of its own, as the lock does.
func benchDriver(b *testing.B, d driver.Driver, cmds []driver.Command) {
	life, end := context.WithCancel(context.Background())
	defer end()
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithTimeout(life, patience)
		if _, err := d.Do(ctx, cmds); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
}
