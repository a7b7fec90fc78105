package goredis_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

func TestSentinel(t *testing.T) {
	first, second := start(t), start(t)
	sentinel := process{redisserver.StartSentinel(t, "sentinel monitor locks 127.0.0.1 "+first.Port+" 1"), t}

	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "locks", SentinelAddrs: []string{sentinel.Addr}})
	d := open(t, client)
	expect(t, d, ok, "SET", "key", "first")

	// Subscriptions find the master by the same discovery.
	_, notices := listen(t, d, "a")
	first.ask("PUBLISH", "a", "token")
	notices.expect(t, driver.Notice{Kind: driver.Message, Channel: "a", Payload: "token"})

	// A failover: the old master lives on as a replica, with our connection open.
	sentinel.ask("SENTINEL", "REMOVE", "locks")
	sentinel.ask("SENTINEL", "MONITOR", "locks", "127.0.0.1", second.Port, "1")
	first.ask("REPLICAOF", "127.0.0.1", second.Port)
	replies, err := d.Do(within(t, patience), []driver.Command{command("SET", "key", "second")})
	if err != nil || code(replies[0].Err()) != "READONLY" {
		t.Fatalf("SET at the old master = %v, %v, want the reply READONLY", replies, err)
	}
	expect(t, d, ok, "SET", "key", "second")
	if got := second.ask("GET", "key"); got != "second" {
		t.Errorf("the new master holds %v", got)
	}

	// The discovery is the client's, and ends with it; the connections are ours.
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, d, text("second"), "GET", "key")
	second.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	for range 2 { // the first may still find the connection that has gone
		_, err = d.Do(within(t, patience), []driver.Command{command("GET", "key")})
	}
	if !errors.Is(err, redis.ErrClosed) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("connecting after the client's Close = %v, want redis.ErrClosed and ErrNotSent", err)
	}
}
