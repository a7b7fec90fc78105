package redlock

import (
	"errors"
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
				err = locker.board.Nodes[0].Gates().Probe(&found.Facts)
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

var someReplid = strings.Repeat("0123456789", 4)

// FuzzLook lets a node show any history and any record. It votes only where they agree.
func FuzzLook(f *testing.F) {
	ours := "role:master\r\nmaster_replid:" + someReplid + "\r\n"
	const settings, age = "10000 0:1", "11251000"
	for _, own := range [][3]string{
		{someReplid, settings, age},
		{someReplid, settings, "11250999"},
		{someReplid, settings, "99999999999999999999"},
		{someReplid, settings, "1e9"},
		{strings.Repeat("0", 40), settings, age},
		{someReplid, "10000 1:1", age},
		{someReplid, "10000 0:3", age},
		{someReplid, "9999 0:1", age},
		{someReplid, "to " + settings, age},
		{"", "", ""},
		{someReplid, "somebody's secret", age},
	} {
		f.Add(ours, own[0], own[1], own[2], byte(0))
	}
	for _, info := range []string{
		strings.ReplaceAll(ours, "master\r", "slave\r"), "master_replid:" + someReplid + "\r\n", "role:master\r\nmaster_replid:\r\n", "x" + ours,
		"role:master\nmaster_replid:" + someReplid + "\n", "role:", "master_replid:", "\n" + ours, "role:master\r\nrole:slave\r\nmaster_replid:" + someReplid + "\r\n",
	} {
		f.Add(info, someReplid, settings, age, byte(0))
	}
	for kinds := range byte(255) {
		f.Add(ours, someReplid, settings, age, kinds)
	}
	f.Fuzz(func(t *testing.T, info, id, settings, age string, odd byte) {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newLocker(t, 1, WithRestartGuard(10*time.Second))
			gates := locker.board.Nodes[0].Gates()
			said := []driver.Reply{{Kind: driver.String, Str: info}, {Kind: driver.Array}}
			for _, text := range []string{id, settings, age} {
				said[1].Elems = append(said[1].Elems, driver.Reply{Kind: driver.String, Str: text})
			}
			replies := []*driver.Reply{&said[0], &said[1], &said[1].Elems[0], &said[1].Elems[1], &said[1].Elems[2]}
			if reply := int(odd) % 8; reply < len(replies) && odd > 0 {
				replies[reply].Kind = driver.Kind(odd / 8 % 8)
			}
			w := witness{guard: 10 * time.Second, nodes: 1}
			v := gates.Look(said, locker.clock.Now())
			shown, err := v.Shown, v.Doubt
			switch votes := w.admits(said[0], said[1]); {
			case err == nil && !votes:
				t.Errorf("a node that shows %+v votes: %+v", said, shown)
			case err != nil && votes && shown != nil && shown.Fault == nil:
				t.Errorf("a node that shows %+v does not vote: %v", said, err)
			case err != nil && len(settings) > 16 && strings.Contains(settings, "secret") && strings.Contains(err.Error(), settings):
				t.Errorf("%v shows what is no record", err)
			case err != nil && said[0].Kind == driver.String && said[1].Kind == driver.Array && shown != nil &&
				!errors.Is(err, ErrQuarantine) && !errors.Is(err, ErrNode) && !errors.Is(err, ErrNodeSet):
				t.Errorf("a node that shows %+v: %v, want an error that says what to do", said, err)
			}
		})
	})
}
