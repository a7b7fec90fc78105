package redlock

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// FuzzInfo lets a node say anything of itself. One that says that it is something else than
// a master, or evicts its keys, is not taken.
func FuzzInfo(f *testing.F) {
	for _, info := range []string{
		"", "role:master\r\n", "role:slave\r\nmaster_host:h\r\n", "role:\r\n", "maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n", "maxmemory_policy:allkeys-lru\r\n",
		"redis_mode:cluster\r\n", "run_id:\r\n", "run_id:twin\r\n", ":", "\x00\xff:\r\n", "role:master:slave\n", "role\r\n:master",
	} {
		for kind := range byte(6) {
			f.Add(info, kind, byte(7))
			f.Add(info, byte(driver.String), kind)
		}
	}
	f.Fuzz(func(t *testing.T, info string, kind, settings byte) {
		synctest.Test(t, func(t *testing.T) {
			var options []Option
			if settings&1 != 0 {
				options = append(options, WithRestartGuard(10*time.Second))
			}
			if settings&2 != 0 {
				options = append(options, WithClockGuard(10*time.Second))
			}
			if settings&4 != 0 {
				options = append(options, WithFences())
			}
			locker, _ := newLocker(t, 2, options...)
			_ = locker.board.Nodes[1].OnFitness([]driver.Reply{{Kind: driver.String, Str: "run_id:twin\r\n"}}, 0)
			said := driver.Reply{Kind: driver.Kind(kind), Str: info}
			found, err := locker.board.Nodes[0].Examine([]driver.Reply{said, said, said, {Kind: driver.Array, Elems: make([]driver.Reply, 2)}})
			if err == nil {
				err = locker.board.Nodes[0].Gates().Probe(t.Context(), &found.Facts)
			}
			if err == nil && said.Kind == driver.String {
				for line := range strings.Lines(info) {
					line = strings.TrimSuffix(line, "\r\n")
					if line == "run_id:twin" && !strings.Contains(strings.Replace(info, line, "", 1), "run_id:") {
						t.Errorf("a node that says %q is taken twice", info)
					}
					if line == "role:slave" && !strings.Contains(strings.Replace(info, line, "", 1), "role:") {
						t.Errorf("a node that says %q is taken for a master", info)
					}
				}
				if settings&1 != 0 && (found.Cluster || !strings.Contains(info, "master_replid:")) {
					t.Errorf("a node that says %q is taken under the guard", info)
				}
			}
			for _, warning := range found.Warnings {
				if warning.Err == nil || fmt.Sprint(warning) == "" {
					t.Errorf("a warning says nothing: %+v", warning)
				}
			}
		})
	})
}
