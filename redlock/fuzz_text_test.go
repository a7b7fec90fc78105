package redlock

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// FuzzNotices lets a subscription hear anything. Only what is said of a channel that was
// asked for counts for who waits there.
func FuzzNotices(f *testing.F) {
	f.Add([]byte{1, 0, 2, 0, 3, 0, 4, 0}, "x")
	f.Add([]byte{2, 0, 1, 1, 1, 2, 2, 1, 2, 2, 0, 0, 255, 0}, wakeChannel)
	f.Add([]byte{1, 3, 2, 3, 4, 0, 1, 0}, "\x00\xff")
	f.Fuzz(func(t *testing.T, heard []byte, odd string) {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newLocker(t, 1)
			v := &vigil{locker: locker, channel: wakeChannel + "k", news: make(chan struct{}, 1), nodes: make([]vigilNode, 1)}
			e := &locker.nodes[0].ear
			e.wanted, e.changed = map[string]*vigil{v.channel: v}, make(chan struct{}, 1)
			h := &hearing{ear: e, asked: map[string]bool{wakeChannel: false, v.channel: false}, over: make(chan error, 1)}
			free, hears, over := false, false, false
			channels := []string{v.channel, wakeChannel, "", odd}
			for ; len(heard) >= 2; heard = heard[2:] {
				notice := driver.Notice{Kind: driver.NoticeKind(heard[0]), Channel: channels[heard[1]%4], Payload: odd}
				if heard[1]&4 != 0 {
					notice.Err = errCut
				}
				h.hear(notice)
				free = free || notice.Kind == driver.Message && notice.Channel == v.channel
				hears = hears || notice.Kind == driver.Confirmed && notice.Channel == v.channel
				over = over || notice.Kind == driver.Refused || notice.Kind == driver.Ended
			}
			if v.nodes[0].free != free || v.nodes[0].hears != hears || (len(h.over) > 0) != over {
				t.Errorf("free %t, heard %t, over %d; want %t, %t and %t", v.nodes[0].free, v.nodes[0].hears, len(h.over), free, hears, over)
			}
			if len(h.asked) != 2 {
				t.Errorf("what was heard has made the subscription ask for %v", h.asked)
			}
		})
	})
}

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
			locker.idents.of[1] = "twin"
			said := driver.Reply{Kind: driver.Kind(kind), Str: info}
			found, err := locker.nodes[0].examine([]driver.Reply{said, said, said, {Kind: driver.Array, Elems: make([]driver.Reply, 2)}})
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
				if settings&1 != 0 && (found.cluster || !strings.Contains(info, "master_replid:")) {
					t.Errorf("a node that says %q is taken under the guard", info)
				}
			}
			for _, warning := range found.warnings {
				if warning.Err == nil || fmt.Sprint(warning) == "" {
					t.Errorf("a warning says nothing: %+v", warning)
				}
			}
		})
	})
}
