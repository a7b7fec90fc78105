package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/test/redisserver"
)

// A node may be the master that Sentinels know, or a Redis Cluster.
func TestNodesBySentinelAndCluster(t *testing.T) {
	t.Parallel()
	plain, watched, masters := redisserver.Start(t), redisserver.Start(t), redisserver.StartCluster(t, 2)
	sentinel := redisserver.StartSentinel(t, "sentinel monitor main 127.0.0.1 "+watched.Port+" 1")
	env := []string{"QUORUMLOCK_NODES=redis://" + plain.Addr +
		" redis-sentinel://" + sentinel.Addr + "?master=main" +
		" redis-cluster://" + masters[0].Addr + "?addr=" + masters[1].Addr}

	// While the program runs, the key comes to each of them: a quorum is two.
	var asks []string
	for _, server := range []*redisserver.Server{plain, watched, masters[0]} {
		asks = append(asks, "until [ $(redis-cli -c -p "+server.Port+" exists orders) = 1 ]; do sleep 0.01; done")
	}
	wants(t, "run", run(t, env, "run", "orders", "--", "sh", "-c", strings.Join(asks, ";")), exitOK)
	wants(t, "status behind it", run(t, env, "status", "orders"), exitOK, "2> nothing is held")
	if got := run(t, env, "doctor", "-o", "json"); !strings.Contains(got.out, `"main@`+sentinel.Addr+`"`) || !strings.Contains(got.out, `"`+masters[0].Addr+`"`) || strings.Contains(got.out, `"down"`) {
		t.Errorf("doctor = %d, want both nodes by their names, and up: %s%s", got.code, got.out, got.talk)
	}
}
