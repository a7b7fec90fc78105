package redigo_test

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/drivertest"
)

func FuzzReplies(f *testing.F) { drivertest.FuzzReplies(f, openURL) }

func FuzzNotices(f *testing.F) { drivertest.FuzzNotices(f, openURL) }

func TestHostileReplies(t *testing.T) { drivertest.HostileReplies(t, openURL) }

func openURL(tb testing.TB, addr string) driver.Driver { return open(tb, "redis://"+addr) }
