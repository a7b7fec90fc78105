package redlock

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/gate"
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
				options = append(options, WithLongestTTL(10*time.Second), WithRestartGuard())
			}
			if settings&2 != 0 {
				options = append(options, WithLongestTTL(10*time.Second), WithClockGuard())
			}
			if settings&4 != 0 {
				options = append(options, WithFences())
			}
			locker, _ := newLocker(t, 2, options...)
			_ = locker.board.Nodes[1].OnFitness([]driver.Reply{{Kind: driver.String, Str: "run_id:twin\r\n"}}, 0)
			said := driver.Reply{Kind: driver.Kind(kind), Str: info}
			found, err := locker.board.Nodes[0].Examine([]driver.Reply{said, said, said, {Kind: driver.Array, Elems: make([]driver.Reply, 2)}})
			if err == nil {
				found.Look = []driver.Reply{said, said}
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

var (
	someNonce  = strings.Repeat("0123456789abcdef", 2)
	someReplid = strings.Repeat("0123456789", 4)
)

func TestRecordsAreReadByTheirGrammarAlone(t *testing.T) {
	const most = "9223372036854775807"
	for _, tt := range []struct {
		key, text string
		want      error
	}{
		{gate.EpochKey, "v1 " + someNonce, nil},
		{gate.EpochKey, "v1 " + someNonce + " a=b", nil},
		{gate.EpochKey, "v1 " + someNonce + " a=b c-9=d=e,f", nil},
		{gate.EpochKey, "v1 " + someNonce + " A=b", gate.ErrExtension},
		{gate.EpochKey, "v1 " + someNonce + " a=b A-9=b", gate.ErrExtension},
		{gate.EpochKey, "v1 " + someNonce + " A=b a", gate.ErrNotRecord},
		{gate.EpochKey, "v2 " + someNonce, gate.ErrNewer},
		{gate.EpochKey, "v10", gate.ErrNewer},
		{gate.EpochKey, "v2", gate.ErrNewer},
		{gate.EpochKey, "v0 " + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, "v01 " + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, "V1 " + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, "2 " + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, "v+2 " + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + strings.ToUpper(someNonce), gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce[1:], gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + "0", gate.ErrNotRecord},
		{gate.EpochKey, "v1  " + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, " v1 " + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " ", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + "\n", gate.ErrNotRecord},
		{gate.EpochKey, "v1\t" + someNonce, gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " a", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " a=", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " =b", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " aB=b", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " Ab=b", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " 9=b", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " a=\x80", gate.ErrNotRecord},
		{gate.EpochKey, "v1 " + someNonce + " a=b  c=d", gate.ErrNotRecord},
		{gate.EpochKey, "v1 ", gate.ErrNotRecord},
		{gate.EpochKey, "v1", gate.ErrNotRecord},
		{gate.EpochKey, "", gate.ErrNotRecord},
		{gate.EpochKey, someNonce, gate.ErrNotRecord},

		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 10000", nil},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 0", nil},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " " + most, nil},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 9223372036854775808", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 010", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " +10", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " -10", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 1e4", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 1_0", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " ", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce, gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someNonce + " " + someReplid + " 10000", gate.ErrNotRecord},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 10000 x=y", nil},
		{gate.MarkerKey, "v1 " + someReplid + " " + someNonce + " 10000 X=y", gate.ErrExtension},
		{gate.MarkerKey, someReplid + " 10000", gate.ErrNotRecord}, // of the releases before the first

		{gate.SetKey, "v1 0:3@1", nil},
		{gate.SetKey, "v1 0:3@1,1:5@1", nil},
		{gate.SetKey, "v1 7:3+5@1+2", nil},
		{gate.SetKey, "v1 0:3@0", nil},
		{gate.SetKey, "v1 0:3@1 x=y", nil},
		{gate.SetKey, "v1 " + most + ":3@1", nil},
		{gate.SetKey, "v1 0:3@1 X=y", gate.ErrExtension},
		{gate.SetKey, "v2 0:3@1", gate.ErrNewer},
		{gate.SetKey, "v1 0:3@0+1", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3@1+0", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3@01", gate.ErrNotRecord},
		{gate.SetKey, "v1 00:3@1", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:@1", gate.ErrNotRecord},
		{gate.SetKey, "v1 :3@1", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3@", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3", gate.ErrNotRecord},
		{gate.SetKey, "v1 0@1", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3@1,", gate.ErrNotRecord},
		{gate.SetKey, "v1 ,0:3@1", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3@1, 1:5@1", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3+@1", gate.ErrNotRecord},
		{gate.SetKey, "v1 0:3@1+", gate.ErrNotRecord},
		{gate.SetKey, "v1 18446744073709551616:3@1", gate.ErrNotRecord},
		{gate.SetKey, "v1", gate.ErrNotRecord},
	} {
		returns(t, tt.want, tt.key, tt.text)(parseRecord(tt.key, tt.text))
	}
}

func parseRecord(key, text string) (err error) {
	switch key {
	case gate.EpochKey:
		_, err = gate.ParseEpoch(text)
	case gate.MarkerKey:
		_, err = gate.ParseMarker(text)
	default:
		_, err = gate.ParseSet(text)
	}
	return err
}

// grammars are the records, once more.
var grammars = map[string]*regexp.Regexp{
	gate.EpochKey:  regexp.MustCompile(`\Av1 [0-9a-f]{32}( [a-z][a-z0-9-]*=[!-~]+)*\z`),
	gate.MarkerKey: regexp.MustCompile(`\Av1 [0-9a-f]{40} [0-9a-f]{32} (0|[1-9][0-9]*)( [a-z][a-z0-9-]*=[!-~]+)*\z`),
	gate.SetKey: regexp.MustCompile(`\Av1 (0|[1-9][0-9]*):(0|[1-9][0-9]*)(\+(0|[1-9][0-9]*))*@(0|[1-9][0-9]*(\+[1-9][0-9]*)*)` +
		`(,(0|[1-9][0-9]*):(0|[1-9][0-9]*)(\+(0|[1-9][0-9]*))*@(0|[1-9][0-9]*(\+[1-9][0-9]*)*))*( [a-z][a-z0-9-]*=[!-~]+)*\z`),
}

func FuzzRecords(f *testing.F) {
	for _, text := range []string{
		"v1 " + someNonce, "v1 " + someReplid + " " + someNonce + " 10000 a=b", "v1 0:3+5@1+2,7:1@0 A-1=b", "v2 x", "v1 0:18446744073709551616@1", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for key, grammar := range grammars {
			err := parseRecord(key, text)
			longNumber := slices.ContainsFunc(regexp.MustCompile(`[0-9]+`).FindAllString(text, -1), func(digits string) bool {
				_, err := strconv.ParseInt(digits, 10, 64)
				return err != nil
			})
			if fits := grammar.MatchString(text); fits != (err == nil) && (!fits || !longNumber) {
				t.Errorf("%s %q: %v, and by its grammar that is a record: %t", key, text, err, fits)
			}
			if err != nil && (strings.Contains(err.Error(), text) && len(text) > 16 || !errors.Is(&gate.RecordError{Key: key, Why: err}, ErrNode)) {
				t.Errorf("%s %q: %v, want ErrNode, and nothing of the text", key, text, err)
			}
		}
	})
}

// FuzzLook lets a node show any history and any records. It votes only where they agree.
func FuzzLook(f *testing.F) {
	ours := "role:master\r\nmaster_replid:" + someReplid + "\r\n"
	epoch, admitted, set := "v1 "+someNonce, "v1 "+someReplid+" "+someNonce+" 10000", "v1 0:1@1"
	for _, set := range []string{set, "v1 0:1@0", "v1 1:1@1", "v1 0:2@1", "v1 0:1@1,0:1@0", "v1 1:3@1,0:1@2 a=b", "v2 0:1@1", ""} {
		f.Add(ours, epoch, admitted, set, byte(0))
	}
	for _, marker := range []string{
		"v1 " + someReplid + " " + someNonce + " 9999", "v1 " + someReplid + " " + strings.Repeat("0", 32) + " 10000",
		"v1 " + strings.Repeat("0", 40) + " " + someNonce + " 10000", "v1 " + someReplid + " " + someNonce + " 9223372036854775807", someReplid + " 10000", "",
	} {
		f.Add(ours, epoch, marker, set, byte(0))
	}
	for _, info := range []string{
		strings.ReplaceAll(ours, "master\r", "slave\r"), "master_replid:" + someReplid + "\r\n", "role:master\r\nmaster_replid:\r\n", "x" + ours,
		"role:master\nmaster_replid:" + someReplid + "\n", "role:", "master_replid:", "\n" + ours, "role:master\r\nrole:slave\r\nmaster_replid:" + someReplid + "\r\n",
	} {
		f.Add(info, epoch, admitted, set, byte(0))
	}
	for kinds := range byte(255) {
		f.Add(ours, epoch, admitted, set, kinds)
	}
	f.Fuzz(func(t *testing.T, info, epoch, admitted, set string, odd byte) {
		synctest.Test(t, func(t *testing.T) {
			locker, _ := newLocker(t, 1, WithLongestTTL(10*time.Second), WithRestartGuard())
			gates := locker.board.Nodes[0].Gates()
			said := []driver.Reply{{Kind: driver.String, Str: info}, {Kind: driver.Array}}
			for _, text := range []string{epoch, admitted, set} {
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
			case err != nil && said[0].Kind == driver.String && said[1].Kind == driver.Array && shown != nil &&
				!errors.Is(err, ErrQuarantine) && !errors.Is(err, ErrNode) && !errors.Is(err, ErrNodeSet):
				t.Errorf("a node that shows %+v: %v, want an error that says what to do", said, err)
			}
		})
	})
}
