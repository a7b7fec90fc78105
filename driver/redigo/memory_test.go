package redigo_test

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// newMemory returns a server in this process that also knows a BLPOP that finds nothing, a
// SUBSCRIBE to one channel and an AUTH that nobody passes.
func newMemory() *redisserver.Memory {
	return &redisserver.Memory{Instead: func(args []string) (string, bool) {
		switch args[0] {
		case "AUTH":
			return "-WRONGPASS invalid username-password pair or user is disabled.\r\n", true
		case "SUBSCRIBE":
			return "*3\r\n$9\r\nsubscribe\r\n" + redisserver.Bulk(args[1]) + ":1\r\n", true
		case "BLPOP":
			seconds, _ := strconv.Atoi(args[2])
			if seconds == 0 { // for ever
				return "", true
			}
			time.Sleep(time.Duration(seconds) * time.Second)
			return "*-1\r\n", true
		}
		return "", false
	}}
}

// dialing returns a redis.Pool.Dial.
func dialing(m *redisserver.Memory) func() (redis.Conn, error) {
	return func() (redis.Conn, error) { return redis.NewConn(m.Dial(), 0, 0), nil }
}

// publish reaches all connections, whatever they subscribe to.
func publish(m *redisserver.Memory, channel, payload string) {
	m.Send("*3\r\n$7\r\nmessage\r\n" + redisserver.Bulk(channel) + redisserver.Bulk(payload))
}

// listen serves the connections to a free port of loopback, and returns its address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}
