package rueidis_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
	"github.com/quorumlock/quorumlock/driver/rueidis"
)

func FuzzReplies(f *testing.F) { drivertest.FuzzReplies(f, openURL) }

func FuzzNotices(f *testing.F) { drivertest.FuzzNotices(f, openURL) }

func TestHostileReplies(t *testing.T) { drivertest.HostileReplies(t, openURL) }

func openURL(tb testing.TB, addr string) driver.Driver {
	tb.Helper()
	nodes, err := rueidis.Open("redis://" + addr)
	if err != nil {
		tb.Fatal(err)
	}
	return driverOf(tb, nodes[0])
}
