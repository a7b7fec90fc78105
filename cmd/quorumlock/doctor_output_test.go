package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/quorumlock/internal/inspect"
)

var update = flag.Bool("update", false, "write the golden screens anew")

// golden compares a screen with the one in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // of this package
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the screen differs from %s (go test -update writes it anew):\n%s", path, got)
	}
}

// Colours, and the blanks that they may keep at the end of a line.
var (
	escape = regexp.MustCompile("\x1b\\[[0-9]*m")
	blanks = regexp.MustCompile("(?m) +$")
)

// screens compares a page with those in testdata, on screens of two widths. With colours it has the same text, and on both
// screens the same colours.
func screens(t *testing.T, verb string, write func(tl *tool) error) {
	t.Helper()
	page := func(env ...string) string {
		var out bytes.Buffer
		if err := write(&tool{out: &out, getenv: having(env...), format: formatTable}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, width := range []string{"80", "200"} {
		bare, coloured := page("COLUMNS="+width), page("COLUMNS="+width, "CLICOLOR_FORCE=1")
		golden(t, verb+"-"+width+".txt", bare)
		if width == "80" {
			golden(t, verb+"-80-colour.txt", coloured)
		}
		if blanks.ReplaceAllString(escape.ReplaceAllString(coloured, ""), "") != bare || !slices.Equal(escape.FindAllString(coloured, -1), escape.FindAllString(page("COLUMNS=80", "CLICOLOR_FORCE=1"), -1)) {
			t.Errorf("with colours the screen of %s columns has another text, or others than that of 80:\n%s", width, coloured)
		}
		for line := range strings.Lines(bare) {
			pasted := strings.Contains(line, "redis-cli ") || strings.Contains(line, "https://")
			if columns := len([]rune(strings.TrimSuffix(line, "\n"))); width == "80" && columns > 80 && !pasted {
				t.Errorf("a line of %s has %d columns on a screen of 80: %q", verb, columns, line)
			}
		}
	}
}

// five starts five servers, of which one evicts keys, and two are down.
func five(t *testing.T) *ward {
	t.Helper()
	w := newMasters(t, 5)
	w.do(3, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-lru")
	w.servers[1].Kill()
	w.servers[4].Kill()
	return w
}

// steady is a report on real servers, with what differs from run to run made the same.
func steady(w *ward) (r inspect.Report) {
	w.t.Helper()
	got := run(w.t, []string{"QUORUMLOCK_NODES=" + w.nodes}, "doctor", "-o", "json", "--for", "100ms", "--node-timeout", "5s", "--prefix", "orders:", "--accept", "persistence")
	text := got.out
	for i, s := range w.servers {
		host := fmt.Sprintf("10.0.0.%d", i+1)
		text = strings.ReplaceAll(text, "-h 127.0.0.1 -p "+s.Port, "-h "+host)
		text = strings.ReplaceAll(text, s.Addr, host+":6379")
	}
	text = regexp.MustCompile(`"used": "[^"]*"`).ReplaceAllString(text, `"used": "1.10M"`)
	text = regexp.MustCompile(`redis \d+\.\d+\.\d+`).ReplaceAllString(text, "redis 7.0.15")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		w.t.Fatalf("%v: %s", err, got.talk)
	}
	r.Time = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.Here = inspect.HereReport{Pause: 0.0123}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		n.Findings = slices.DeleteFunc(n.Findings, func(f inspect.Finding) bool { return f.ID == "latency" || f.ID == "scripts" }) // of a busy machine; of a later server
		if n.State != inspect.Down {
			n.RTT, n.Offset, n.Acquire = 0.000311, &[2]float64{-0.00012, 0.00019}, &inspect.Latency{Samples: 200, P50: 0.0004, P99: 0.0021, Max: 0.003}
		}
	}
	return r
}

func TestTheScreensOfDoctor(t *testing.T) {
	t.Parallel()
	r := steady(five(t))
	screens(t, "doctor", func(tl *tool) error { return tl.writeReport(&r) })
	golden(t, "doctor-nagios.txt", nagios(&r))
	golden(t, "doctor-prometheus.txt", prometheus(&r))
	for _, name := range alerted(t, "doctor") {
		if !strings.Contains(prometheus(&r), "# TYPE "+name+" ") {
			t.Errorf("alerts.yml names %s, which doctor does not write", name)
		}
	}
}

func TestTheJSONOfDoctorIsAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	w := five(t)
	env := []string{"QUORUMLOCK_NODES=" + w.nodes}
	got := run(t, env, "doctor", "-o", "json", "--for", "100ms", "--durable", "--guard")
	if faults := conforms(t, "doctor.v1.json", got.out); faults != nil || got.code != 2 {
		t.Errorf("doctor -o json = %d, %s; faults: %q", got.code, got.out, faults)
	}
	got = run(t, env, "doctor", "-o", "jsonl", "--for", "100ms")
	for line := range strings.Lines(got.out) {
		var f inspect.Finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.ID == "" {
			t.Errorf("a line of doctor -o jsonl is no finding: %q, %v", line, err)
		}
	}
	for _, id := range inspect.IDs {
		if schema, err := os.ReadFile("../../docs/schema/doctor.v1.json"); err != nil || !bytes.Contains(schema, []byte(`"`+id+`"`)) {
			t.Errorf("the schema does not know the finding %s: %v", id, err)
		}
	}
	if got = run(t, []string{"QUORUMLOCK_NODES=redis://a"}, "profile", "check", "-o", "json"); conforms(t, "profile.v1.json", got.out) != nil {
		t.Errorf("profile check -o json is not as its schema says: %q", conforms(t, "profile.v1.json", got.out))
	}
}

// One label that is not UTF-8 makes a collector drop the whole file, and keys may be any bytes.
func TestWhatPrometheusReadsIsUTF8WhateverTheNamesAre(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"doctor": prometheus(&inspect.Report{Nodes: []inspect.NodeReport{{Name: "/run/\xff.sock"}}}),
		"run":    (&figures{key: "caf\xe9"}).text(),
	} {
		if !utf8.ValidString(text) || !strings.Contains(text, "\ufffd") {
			t.Errorf("of %s it is %q, want U+FFFD in the place of what is not UTF-8", name, text)
		}
	}
}

// alerted are the metrics of a verb that the alerting rules name.
func alerted(t testing.TB, verb string) []string {
	t.Helper()
	rules, err := os.ReadFile("../../docs/observability/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bquorumlock_`+verb+`_[a-z_]+`).FindAllString(string(rules), -1)
	if len(names) == 0 {
		t.Fatalf("alerts.yml names no metric of %s", verb)
	}
	return names
}

func TestACheckIsSilentWhereAllIsFit(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	env := []string{"QUORUMLOCK_NODES=" + w.nodes}
	if got := run(t, env, "doctor", "--for", "100ms", "--node-timeout", "5s", "--check=eviction,reach"); got != (result{}) {
		t.Errorf("a check of what is fit = %+v, want code 0 and no output", got)
	}
	w.do(1, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	got := run(t, env, "doctor", "--for", "100ms", "--node-timeout", "5s", "--check=eviction,reach")
	if got.code != 2 || !strings.Contains(got.out, "maxmemory-policy noeviction") || strings.Contains(got.out, "same-host") {
		t.Errorf("a check of what is unfit = %+v, want code 2 and that finding alone", got)
	}
	if got := run(t, env, "doctor", "--for", "100ms", "--check"); got.code != 2 || !strings.Contains(got.out, "same-host") {
		t.Errorf("a check of everything = %+v, want code 2 and all findings", got)
	}
}

func TestNoPasswordIsShown(t *testing.T) {
	t.Parallel()
	w := newWard(t, "requirepass hunter2", "user look on >hunter2 ~* &* +@all")
	for _, nodes := range []string{
		strings.ReplaceAll(w.nodes, "redis://", "redis://look:hunter2@"), strings.ReplaceAll(w.nodes, "redis://", "rediss://look:hunter2@"),
		strings.ReplaceAll(w.nodes, "redis://", "redis://other:hunter2@"),
	} {
		for _, f := range []string{"table", "json", "nagios", "prometheus"} {
			got := run(t, []string{"QUORUMLOCK_NODES=" + nodes}, "doctor", "--for", "100ms", "-o", f)
			if strings.Contains(got.out+got.talk, "hunter2") || got.out == "" {
				t.Errorf("doctor -o %s shows the password, or nothing: %s%s", f, got.out, got.talk)
			}
		}
	}
}

// Whoever may write to a node may choose names.
func TestNamesOnNodesDoNothingToATerminal(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	w.do(1, "HSET", "orders:\x1b[2J\nredis-cli flushall\r", "a", "1")
	for _, f := range []string{"table", "nagios", "prometheus"} {
		got := run(t, []string{"QUORUMLOCK_NODES=" + w.nodes}, "doctor", "--for", "100ms", "--prefix", "orders:", "-o", f)
		if strings.ContainsAny(got.out, "\x1b\r") || regexp.MustCompile(`(?m)^[ ]*redis-cli flushall`).MatchString(got.out) || !strings.Contains(got.out, "foreign") {
			t.Errorf("doctor -o %s shows a key's name as it is, or does not find it: %q", f, got.out)
		}
	}
}
