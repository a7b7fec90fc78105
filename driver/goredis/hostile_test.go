package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
)

func FuzzReplies(f *testing.F) { drivertest.FuzzReplies(f, openDefault) }

func FuzzNotices(f *testing.F) { drivertest.FuzzNotices(f, openDefault) }

func TestHostileReplies(t *testing.T) { drivertest.HostileReplies(t, openDefault) }

// openDefault opens the driver of a client as people make it.
func openDefault(tb testing.TB, addr string) driver.Driver {
	return open(tb, redis.NewClient(&redis.Options{Addr: addr}))
}
