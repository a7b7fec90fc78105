package inspect

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/certificates"
	"github.com/quorumlock/quorumlock/test/fakenode"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Nodes that have no vote for now, or do not answer, are missing whatever is found at each.
func TestTheWorstFindingIsTheVerdict(t *testing.T) {
	found := func(all ...Severity) (findings []Finding) {
		for _, severity := range all {
			findings = append(findings, Finding{ID: "acl", Severity: severity})
		}
		return findings
	}
	at := func(all ...Severity) NodeReport { return NodeReport{Findings: found(all...)} }
	fit, out, down := NodeReport{}, NodeReport{Quarantined: true}, NodeReport{State: Down}
	for _, tt := range []struct {
		nodes   []NodeReport
		here    []Finding
		verdict Severity
		fit     int
		says    string
	}{
		{[]NodeReport{fit, fit, fit}, nil, Fit, 3, "survive the loss of one more"},
		{[]NodeReport{at(Info), fit, fit}, nil, Fit, 3, "3 of 3"},
		{[]NodeReport{at(Unknown), fit, fit}, nil, Unknown, 3, "3 of 3"},
		{[]NodeReport{at(Unknown), at(Warning), fit}, nil, Warning, 3, "3 of 3"},
		{[]NodeReport{at(Warning, Unfit), fit, fit}, nil, Unfit, 2, "one more loss ends that"},
		{[]NodeReport{at(Unfit), at(Unfit), fit}, nil, Unfit, 1, "2 must be: locks do not work"},
		{[]NodeReport{fit, fit, fit, fit, fit}, found(Warning), Warning, 5, "survive the loss of 2 more"},
		{[]NodeReport{at(Warning), at(Warning), at(Unfit, Warning)}, nil, Unfit, 2, "one more loss ends that"},
		{[]NodeReport{out, out, out}, nil, Unfit, 0, "locks do not work"},
		{[]NodeReport{out, out, fit}, nil, Unfit, 1, "locks do not work"},
		{[]NodeReport{out, fit, fit}, nil, Fit, 2, "one more loss ends that"},
		{[]NodeReport{down, down, fit}, nil, Unfit, 1, "locks do not work"},
		{[]NodeReport{down, fit, fit}, nil, Fit, 2, "one more loss ends that"},
	} {
		r := Report{Quorum: len(tt.nodes)/2 + 1, Nodes: tt.nodes, Here: HereReport{Findings: tt.here}}
		r.conclude()
		if r.Verdict != tt.verdict || r.Fit != tt.fit || !strings.Contains(r.Summary, tt.says) {
			t.Errorf("of %v: verdict %s, %d fit, %q; want %s, %d, %q", tt.nodes, r.Verdict, r.Fit, r.Summary, tt.verdict, tt.fit, tt.says)
		}
	}
}

func TestWhatIsAcceptedIsNoWarningAndWhatIsUnfitStaysSo(t *testing.T) {
	r := Report{Quorum: 1, Nodes: []NodeReport{{Findings: []Finding{{ID: "same-host", Severity: Warning}, {ID: "limits", Severity: Warning}, {ID: "eviction", Severity: Unfit}}}}}
	r.judgeBy([]string{"same-host", "eviction"}, []string{"same-host", "eviction"})
	got := r.Nodes[0].Findings
	if len(got) != 2 || got[0].ID != "eviction" || got[0].Severity != Unfit || got[1].Severity != Info {
		t.Errorf("the findings are %+v, want eviction, still unfit, and same-host, worth knowing", got)
	}
}

func TestALineForAShellKeepsItsWords(t *testing.T) {
	for word, want := range map[string]string{
		"noeviction": "noeviction", "~orders:*": "'~orders:*'", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "$(reboot)": "'$(reboot)'", "10.0.0.1:6379": "10.0.0.1:6379",
	} {
		if got := quote(word); got != want {
			t.Errorf("%q is %s for a shell, want %s", word, got, want)
		}
	}
	for name, want := range map[string]string{
		"10.0.0.1:6379": "redis-cli -h 10.0.0.1", "[::1]:7000": "redis-cli -h ::1 -p 7000", "cache": "redis-cli",
	} {
		if got := usualCLI(name); got != want {
			t.Errorf("of node %s the command line begins %s, want %s", name, got, want)
		}
	}
	files := certificates.New(t)
	for raw, want := range map[string]string{ //nolint:gosec // nobody's passwords
		"redis://locks:secret@10.0.0.1/3":        "redis-cli -h 10.0.0.1 -n 3",
		"unix:///run/it's here.sock?db=2":        `redis-cli -s '/run/it'\''s here.sock' -n 2`,
		"rediss://:secret@10.0.0.1:7000":         "redis-cli -h 10.0.0.1 -p 7000 --tls",
		"rediss://a?servername=b&ca=" + files.CA: "redis-cli -h a --tls --cacert " + files.CA + " --sni b",
	} {
		if got, err := ParseEndpoint(raw); err != nil || got.CLI != want {
			t.Errorf("of %s the command line begins %s (%v), want %s", raw, got.CLI, err, want)
		}
	}
	if _, err := ParseEndpoint("10.0.0.1"); err == nil {
		t.Error("an address is taken for a URL")
	}
}

func TestAPausedProcessAndAQuotaAreFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    machine
		want string
	}{
		{"all is well", machine{pause: 10 * time.Millisecond, clock: timekeeping{asleep: true, synced: true, ok: true}}, ""},
		{"a pause", machine{pause: time.Second, clock: timekeeping{asleep: true, synced: true, ok: true}}, "does not renew"},
		{"a quota", machine{before: quota{10, 2, true}, after: quota{30, 3, true}, clock: timekeeping{asleep: true, synced: true, ok: true}}, "throttled holder"},
		{"a quota long ago", machine{before: quota{10, 2, true}, after: quota{30, 2, true}, clock: timekeeping{asleep: true, synced: true, ok: true}}, ""},
		{"a system that hides its sleep", machine{clock: timekeeping{synced: true, ok: true}}, "machine slept"},
		{"a clock of its own", machine{clock: timekeeping{asleep: true, ok: true}}, "no time service"},
		{"a clock that tells nothing", machine{clock: timekeeping{asleep: true}}, "nobody can tell"},
	} {
		r := tt.m.report(10 * time.Second)
		switch {
		case tt.want == "" && len(r.Findings) > 0, tt.want != "" && len(r.Findings) != 1:
			t.Errorf("%s: %+v", tt.name, r.Findings)
		case tt.want != "" && !strings.Contains(r.Findings[0].Why, tt.want):
			t.Errorf("%s: %q, want %q", tt.name, r.Findings[0].Why, tt.want)
		}
	}
}

// In a bubble nothing pauses a process but the test.
func TestAWatchMeasuresTheLongestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machine
		m.watch(t.Context(), 100*time.Millisecond)
		if m.pause != 0 {
			t.Errorf("where nothing pauses, the longest pause is %v", m.pause)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		begun := time.Now()
		m.watch(ctx, time.Hour)
		if took := time.Since(begun); took > 20*time.Millisecond {
			t.Errorf("a watch goes on for %v after its context's 10ms", took)
		}
	})
}

func TestADriverThatBreaksItsContractIsDown(t *testing.T) {
	r := Doctor(t.Context(), []driver.Node{{Name: "liar", Driver: liar{}}}, Options{For: time.Millisecond})
	if r.Nodes[0].State != Down || r.Verdict != Unfit {
		t.Errorf("a driver that returns no replies is %s, and the verdict %s; want down and unfit", r.Nodes[0].State, r.Verdict)
	}
	if !slices.ContainsFunc(r.All(), func(f Finding) bool { return f.ID == "reach" && strings.Contains(f.Seen.String(), "contract") }) {
		t.Errorf("no finding says so: %+v", r.All())
	}
}

// liar returns fewer replies than commands, and no error.
type liar struct{}

func (liar) Do(context.Context, []driver.Command) ([]driver.Reply, error) { return nil, nil }

func TestWhatStandsBesideALockIsNoneOfAnotherLibrary(t *testing.T) {
	for _, tt := range []struct {
		key, kind string
		other     bool
	}{
		{"ql:fences:{1}", "zset", false},
		{"ql:fences:{2}", "string", true},
		{"ql:readers:{job}", "zset", false},
		{"ql:line:{job}", "zset", false},
		{"ql:permits:{job}", "string", false},
		{"ql:pool:{job}", "zset", false},
		{"{job}:scores", "zset", true},
		{"line", "zset", true},
	} {
		at := target{exam: new(exam)}
		at.classify(tt.key, driver.Reply{Kind: driver.String, Str: tt.kind}, driver.Reply{Kind: driver.String, Str: "value"}, driver.Reply{Kind: driver.Integer, Int: 1000})
		if other := len(at.foreign.others)+len(at.foreign.locks) > 0; other != tt.other {
			t.Errorf("a %s %s is other data: %v, want %v", tt.kind, tt.key, other, tt.other)
		}
	}
}

func TestADoctorTakesNoLongerThanItSays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ended bool // the context, before
		watch time.Duration
		most  time.Duration
	}{
		{"by default", false, 0, 3 * time.Second},
		{"for 10s", false, 10 * time.Second, 11 * time.Second},
		{"with a context that has ended", true, 0, 0},
		{"for 10s with a context that has ended", true, 10 * time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.ended {
				cancel()
			}
			silent := fakenode.New("silent")
			silent.Stop()
			begun := time.Now()
			r := Doctor(ctx, []driver.Node{{Name: "1", Driver: silent}, {Name: "2", Driver: silent}, {Name: "3", Driver: silent}}, Options{For: tt.watch})
			if took := time.Since(begun); took > tt.most || r.Verdict != Unfit || r.Fit != 0 {
				t.Errorf("%s the doctor of silent nodes takes %v, and says %s, %d fit; want %v at most, and unfit", tt.name, took, r.Verdict, r.Fit, tt.most)
			}
		})
	}
}
