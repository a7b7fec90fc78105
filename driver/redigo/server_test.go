package redigo_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

func TestStoppedServerWhosePoolAsksFirst(t *testing.T) {
	server := redisserver.Start(t, "user default on nopass ~* &* +@all")
	pool := &redis.Pool{
		MaxIdle: 1, MaxActive: 2,
		Dial: func() (redis.Conn, error) {
			conn, err := redis.Dial("tcp", server.Addr)
			if err == nil {
				_, err = conn.Do("AUTH", "default", "")
			}
			return conn, err
		},
		TestOnBorrow: func(conn redis.Conn, _ time.Time) error {
			_, err := conn.Do("PING")
			return err
		},
	}
	t.Cleanup(func() { _ = pool.Close() })
	d := newDriver(t, pool)
	servertest.Ask(t, d, "SET", "key", "value")
	thaw := server.Freeze()
	for range 3 {
		_ = returnsInTime(t, d)
	}
	thaw()
	servertest.Ask(t, d, "SET", "key", "value")
}

// The core sends a batch twice at most, and here every connection that idles in the
// pool is dead.
func TestServerThatRestartedIsReachedByTheSecondTry(t *testing.T) {
	for name, maxActive := range map[string]int{"connections are kept": 0, "connections are not kept": 7} {
		t.Run(name, func(t *testing.T) {
			server := redisserver.Start(t)
			pool := newPool(t, server.Addr)
			pool.MaxActive = maxActive
			idles(t, pool, 6)
			d := newDriver(t, pool)
			servertest.Ask(t, d, "SET", "key", "value")
			server.Kill()
			redisserver.StartAt(t, server.Addr)
			if _, err := d.Do(servertest.Within(t, servertest.Patience), []driver.Command{servertest.Command("PING")}); err == nil || errors.Is(err, driver.ErrNotSent) {
				t.Errorf("Do on a connection that has died = %v, want a failure of unknown outcome", err)
			}
			servertest.Ask(t, d, "SET", "key", "value")
		})
	}
}

func TestSubscriptionToAServerThatRestarts(t *testing.T) {
	server := redisserver.Start(t)
	pool := newPool(t, server.Addr)
	idles(t, pool, 8)
	d := newDriver(t, pool)
	s := servertest.Subscribe(t, d, "channel")
	server.Kill()
	_ = s.End()
	again := redisserver.StartAt(t, server.Addr)
	servertest.Subscribe(t, d, "channel").Hear(again, "channel") // though all that idled in the pool is dead
}

func TestCloseEndsAHandshakeWithASilentServer(t *testing.T) {
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, scheme := range []string{"redis", "rediss"} {
		d := servertest.Open(t, redigo.Open, scheme+"://:secret@"+silent.Addr().String())
		if err := returnsInTime(t, d); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%s: Do during a handshake = %v, want that nothing was sent", scheme, err)
		}
		watch := patient.Start()
		servertest.Close(t, d)
		if took := watch.Took(); took > 3*time.Second {
			t.Errorf("%s: Close took %v, as long as the handshake may", scheme, took)
		}
	}
}
