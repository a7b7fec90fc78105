package redlock

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

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
		{epochKey, "v1 " + someNonce, nil},
		{epochKey, "v1 " + someNonce + " a=b", nil},
		{epochKey, "v1 " + someNonce + " a=b c-9=d=e,f", nil},
		{epochKey, "v1 " + someNonce + " A=b", errExtension},
		{epochKey, "v1 " + someNonce + " a=b A-9=b", errExtension},
		{epochKey, "v1 " + someNonce + " A=b a", errNotRecord},
		{epochKey, "v2 " + someNonce, errNewer},
		{epochKey, "v10", errNewer},
		{epochKey, "v2", errNewer},
		{epochKey, "v0 " + someNonce, errNotRecord},
		{epochKey, "v01 " + someNonce, errNotRecord},
		{epochKey, "V1 " + someNonce, errNotRecord},
		{epochKey, "2 " + someNonce, errNotRecord},
		{epochKey, "v+2 " + someNonce, errNotRecord},
		{epochKey, "v1 " + strings.ToUpper(someNonce), errNotRecord},
		{epochKey, "v1 " + someNonce[1:], errNotRecord},
		{epochKey, "v1 " + someNonce + "0", errNotRecord},
		{epochKey, "v1  " + someNonce, errNotRecord},
		{epochKey, " v1 " + someNonce, errNotRecord},
		{epochKey, "v1 " + someNonce + " ", errNotRecord},
		{epochKey, "v1 " + someNonce + "\n", errNotRecord},
		{epochKey, "v1\t" + someNonce, errNotRecord},
		{epochKey, "v1 " + someNonce + " a", errNotRecord},
		{epochKey, "v1 " + someNonce + " a=", errNotRecord},
		{epochKey, "v1 " + someNonce + " =b", errNotRecord},
		{epochKey, "v1 " + someNonce + " aB=b", errNotRecord},
		{epochKey, "v1 " + someNonce + " Ab=b", errNotRecord},
		{epochKey, "v1 " + someNonce + " 9=b", errNotRecord},
		{epochKey, "v1 " + someNonce + " a=\x80", errNotRecord},
		{epochKey, "v1 " + someNonce + " a=b  c=d", errNotRecord},
		{epochKey, "v1 ", errNotRecord},
		{epochKey, "v1", errNotRecord},
		{epochKey, "", errNotRecord},
		{epochKey, someNonce, errNotRecord},

		{markerKey, "v1 " + someReplid + " " + someNonce + " 10000", nil},
		{markerKey, "v1 " + someReplid + " " + someNonce + " 0", nil},
		{markerKey, "v1 " + someReplid + " " + someNonce + " " + most, nil},
		{markerKey, "v1 " + someReplid + " " + someNonce + " 9223372036854775808", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce + " 010", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce + " +10", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce + " -10", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce + " 1e4", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce + " 1_0", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce + " ", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce, errNotRecord},
		{markerKey, "v1 " + someNonce + " " + someReplid + " 10000", errNotRecord},
		{markerKey, "v1 " + someReplid + " " + someNonce + " 10000 x=y", nil},
		{markerKey, "v1 " + someReplid + " " + someNonce + " 10000 X=y", errExtension},
		{markerKey, someReplid + " 10000", errNotRecord}, // of the releases before the first

		{setKey, "v1 0:3@1", nil},
		{setKey, "v1 0:3@1,1:5@1", nil},
		{setKey, "v1 7:3+5@1+2", nil},
		{setKey, "v1 0:3@0", nil},
		{setKey, "v1 0:3@1 x=y", nil},
		{setKey, "v1 " + most + ":3@1", nil},
		{setKey, "v1 0:3@1 X=y", errExtension},
		{setKey, "v2 0:3@1", errNewer},
		{setKey, "v1 0:3@0+1", errNotRecord},
		{setKey, "v1 0:3@1+0", errNotRecord},
		{setKey, "v1 0:3@01", errNotRecord},
		{setKey, "v1 00:3@1", errNotRecord},
		{setKey, "v1 0:@1", errNotRecord},
		{setKey, "v1 :3@1", errNotRecord},
		{setKey, "v1 0:3@", errNotRecord},
		{setKey, "v1 0:3", errNotRecord},
		{setKey, "v1 0@1", errNotRecord},
		{setKey, "v1 0:3@1,", errNotRecord},
		{setKey, "v1 ,0:3@1", errNotRecord},
		{setKey, "v1 0:3@1, 1:5@1", errNotRecord},
		{setKey, "v1 0:3+@1", errNotRecord},
		{setKey, "v1 0:3@1+", errNotRecord},
		{setKey, "v1 18446744073709551616:3@1", errNotRecord},
		{setKey, "v1", errNotRecord},
	} {
		if err := parseRecord(tt.key, tt.text); !errors.Is(err, tt.want) {
			t.Errorf("%s %q: %v, want %v", tt.key, tt.text, err, tt.want)
		}
	}
}

func parseRecord(key, text string) (err error) {
	switch key {
	case epochKey:
		_, err = parseEpoch(text)
	case markerKey:
		_, err = parseMarker(text)
	default:
		_, err = parseSet(text)
	}
	return err
}

// grammars are the records, once more.
var grammars = map[string]*regexp.Regexp{
	epochKey:  regexp.MustCompile(`\Av1 [0-9a-f]{32}( [a-z][a-z0-9-]*=[!-~]+)*\z`),
	markerKey: regexp.MustCompile(`\Av1 [0-9a-f]{40} [0-9a-f]{32} (0|[1-9][0-9]*)( [a-z][a-z0-9-]*=[!-~]+)*\z`),
	setKey: regexp.MustCompile(`\Av1 (0|[1-9][0-9]*):(0|[1-9][0-9]*)(\+(0|[1-9][0-9]*))*@(0|[1-9][0-9]*(\+[1-9][0-9]*)*)` +
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
			if err != nil && (strings.Contains(err.Error(), text) && len(text) > 16 || !errors.Is(&recordError{key, err}, ErrNode)) {
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
			locker, _ := newLocker(t, 1, WithRestartGuard(10*time.Second))
			n := locker.nodes[0]
			said := []driver.Reply{{Kind: driver.String, Str: info}, {Kind: driver.Array}}
			for _, text := range []string{epoch, admitted, set} {
				said[1].Elems = append(said[1].Elems, driver.Reply{Kind: driver.String, Str: text})
			}
			replies := []*driver.Reply{&said[0], &said[1], &said[1].Elems[0], &said[1].Elems[1], &said[1].Elems[2]}
			if reply := int(odd) % 8; reply < len(replies) && odd > 0 {
				replies[reply].Kind = driver.Kind(odd / 8 % 8)
			}
			w := witness{guard: 10 * time.Second, nodes: 1}
			shown, err := n.judge(said, locker.clock.Now())
			switch votes := w.admits(said[0], said[1]); {
			case err == nil && !votes:
				t.Errorf("a node that shows %+v votes: %+v", said, shown)
			case err != nil && votes && shown != nil && shown.fault == nil:
				t.Errorf("a node that shows %+v does not vote: %v", said, err)
			case err != nil && said[0].Kind == driver.String && said[1].Kind == driver.Array && shown != nil &&
				!errors.Is(err, ErrQuarantine) && !errors.Is(err, ErrNode) && !errors.Is(err, ErrNodeSet):
				t.Errorf("a node that shows %+v: %v, want an error that says what to do", said, err)
			}
		})
	})
}
