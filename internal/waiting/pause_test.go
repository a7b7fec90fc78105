package waiting

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/clockdrift"
)

// A rival is what a try has seen.
type rival struct {
	Try
	token string
	may   bool
	holds bool // at a quorum
	own   bool // the try's own token may have one

	took time.Duration // by the try
}

func (r rival) Rival() (token string, may bool) { return r.token, r.may }

func (r rival) Misleads() bool { return r.own }

func (r rival) Holder() string {
	if r.holds {
		return r.token
	}
	return ""
}

func TestATokenIsAHoldersOnlyIfItMightHaveHadAQuorumAllTheTime(t *testing.T) {
	const long = time.Second
	hidden, known := rival{token: "ql:a", may: true}, rival{token: "ql:a"}
	misleads := rival{token: "ql:a", may: true, own: true}
	slow := rival{token: "ql:a", may: true, took: long / 2}
	for _, tt := range []struct {
		name string
		seen []rival // one each half second
		want bool
	}{
		{"it may have one at each try", []rival{hidden, hidden, hidden}, true},
		{"it was there for less when the last try began", []rival{hidden, hidden, slow}, false},
		{"it is there for less", []rival{hidden, hidden}, false},
		{"it has none at any", []rival{known, known, known, known}, false},
		{"a node is late at the last one alone", []rival{known, known, known, hidden}, false},
		{"it had none in between", []rival{hidden, known, hidden, hidden}, true},
		{"it had none a moment ago", []rival{hidden, hidden, known, hidden}, false},
		{"it had the key in between", []rival{hidden, hidden, {token: "ql:a", may: true, holds: true}, hidden, hidden}, false},
		{"another one was there in between", []rival{hidden, {token: "ql:b", may: true}, hidden, hidden}, false},
		{"whoever left it may have been misled", []rival{misleads, hidden, hidden, hidden}, false},
		{"whoever left it may have been misled long ago", []rival{misleads, hidden, hidden, hidden, hidden}, true},
		{"another one was misled in between", []rival{hidden, hidden, {token: "ql:b", may: true, own: true}, hidden, hidden, hidden}, false},
		{"it is no token of the library's", []rival{{token: "a", may: true}, {token: "a", may: true}, {token: "a", may: true}}, false},
	} {
		var s Sighting
		var got bool
		for i, r := range tt.seen {
			now := clockdrift.Instant(1).Add(time.Duration(i) * long / 2)
			got = s.Stays(r, now.Add(-r.took), now, long)
		}
		if got != tt.want {
			t.Errorf("%s: taken for a holder's = %v, want %v", tt.name, got, tt.want)
		}
	}
}
