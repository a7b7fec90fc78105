package program

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// lock takes a lock and gives it back.
func lock(ctx context.Context, s Stage) error {
	locker, err := s.Open()
	if err != nil {
		return err
	}
	defer locker.Close()
	return locker.Do(ctx, "orders:42", func(context.Context) error { return nil })
}

func TestEachClientTakesALock(t *testing.T) {
	for _, client := range []string{"goredis", "redigo", "rueidis"} {
		given := redlocktest.Start(t, 3)
		for _, urls := range []string{"", "redis://" + strings.Join(given.Addrs(), ",redis://")} {
			if err := play(t.Context(), io.Discard, client, urls, lock); err != nil {
				t.Errorf("-client %s -nodes %q: %v", client, urls, err)
			}
		}
		if asked := given[0].Count("SET") + given[1].Count("SET") + given[2].Count("SET"); asked < 2 { // the third need not be asked
			t.Errorf("-client %s: no lock was taken on the nodes that were given", client)
		}
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	for _, tt := range []struct{ client, urls, want string }{
		{"redis", "", `-client "redis": want goredis, redigo or rueidis`},
		{"goredis", "localhost:6379", "node 1"},
	} {
		if err := play(t.Context(), io.Discard, tt.client, tt.urls, lock); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("-client %q -nodes %q: %v, want %q", tt.client, tt.urls, err, tt.want)
		}
	}
}
