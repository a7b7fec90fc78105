package goredis_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestSentinelByURL(t *testing.T) {
	servertest.Failover(t, func(sentinel string) driver.Driver {
		nodes, err := goredis.Open("redis-sentinel://" + sentinel + "?master=main")
		if err != nil {
			t.Fatal(err)
		}
		if want := "main@" + sentinel; nodes[0].Name != want {
			t.Errorf("the node is named %q, want %q", nodes[0].Name, want)
		}
		return servertest.Closing(t, nodes[0].Driver)
	})
}

func TestClusterByURL(t *testing.T) {
	servertest.ClusterByURL(t, goredis.Open)
}

func TestSentinel(t *testing.T) {
	var client *redis.Client
	d, master := servertest.Failover(t, func(sentinel string) driver.Driver {
		client = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel}})
		return open(t, client)
	})

	// The discovery is the client's, and ends with it; the connections are ours.
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	servertest.Expect(t, d, "after", "GET", "key")
	master.Ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	var err error
	for range 2 { // the first may still find the connection that has gone
		_, err = d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("GET", "key")})
	}
	if !errors.Is(err, redis.ErrClosed) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("connecting after the client's Close = %v, want redis.ErrClosed and ErrNotSent", err)
	}
}
