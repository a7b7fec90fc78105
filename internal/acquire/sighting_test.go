package acquire

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

func TestATokenIsAHoldersOnlyIfItMightHaveHadAQuorumAllTheTime(t *testing.T) {
	const long = time.Second
	hidden, known := Found{Rival: "ql:a", Marked: true, MayHold: true}, Found{Rival: "ql:a", Marked: true}
	misleads := Found{Rival: "ql:a", Marked: true, MayHold: true, Misleads: true}
	for _, tt := range []struct {
		name string
		seen []Found       // one each half second
		took time.Duration // the last
		want bool
	}{
		{"it may have one at each try", []Found{hidden, hidden, hidden}, 0, true},
		{"it was there for less when the last try began", []Found{hidden, hidden, hidden}, long / 2, false},
		{"it is there for less", []Found{hidden, hidden}, 0, false},
		{"it has none at any", []Found{known, known, known, known}, 0, false},
		{"a node is late at the last one alone", []Found{known, known, known, hidden}, 0, false},
		{"it had none in between", []Found{hidden, known, hidden, hidden}, 0, true},
		{"it had none a moment ago", []Found{hidden, hidden, known, hidden}, 0, false},
		{"it had the key in between", []Found{hidden, hidden, {Rival: "ql:a", Marked: true, MayHold: true, Holder: "ql:a"}, hidden, hidden}, 0, false},
		{"another one was there in between", []Found{hidden, {Rival: "ql:b", Marked: true, MayHold: true}, hidden, hidden}, 0, false},
		{"whoever left it may have been misled", []Found{misleads, hidden, hidden, hidden}, 0, false},
		{"whoever left it may have been misled long ago", []Found{misleads, hidden, hidden, hidden, hidden}, 0, true},
		{"another one was misled in between", []Found{hidden, hidden, {Rival: "ql:b", Marked: true, MayHold: true, Misleads: true}, hidden, hidden, hidden}, 0, false},
		{"it is no token of the library's", []Found{{Rival: "a", MayHold: true}, {Rival: "a", MayHold: true}, {Rival: "a", MayHold: true}}, 0, false},
	} {
		var s Sighting
		var got bool
		for i, found := range tt.seen {
			now := clockdrift.Instant(1).Add(time.Duration(i) * long / 2)
			if found.Asked = now; i == len(tt.seen)-1 {
				found.Asked = now.Add(-tt.took)
			}
			got = s.Stays(&found, now, long)
		}
		if got != tt.want {
			t.Errorf("%s: taken for a holder's = %v, want %v", tt.name, got, tt.want)
		}
	}
}
