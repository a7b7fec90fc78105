package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/test/patient"
)

// tokens are those that tests write to nodes by hand.
var tokens = regexp.MustCompile(`[0-9a-f]{8,}`)

// longLease is for how long keys are held whose state is looked at in peace.
const longLease = 10 * time.Minute

// hand is a token that a test writes to nodes by hand.
func hand(digit, owner string) string {
	token := "ql:" + strings.Repeat(digit, 32)
	if owner != "" {
		token += ":" + owner
	}
	return token
}

// put sets a key at some of the nodes, counted from 1.
func (s *site) put(key, value string, left time.Duration, at ...int) {
	s.t.Helper()
	for _, node := range at {
		do(s.t, s.servers[node-1], "SET", prefix+key, value, "PX", fmt.Sprint(left.Milliseconds()))
	}
}

// holdAll makes keys of all kinds and states held, on five nodes.
func holdAll(t *testing.T) *site {
	t.Helper()
	s := newSite(t, 5, longLease)
	locker := s.newLocker(longLease, redlock.WithOwner("pod-7"), redlock.WithFences(), redlock.WithoutRenewal())
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(locker.Acquire(t.Context(), "42"))
	must(locker.AcquireAll(t.Context(), []string{"set:a", "set:b"}))
	for range 3 {
		must(locker.AcquireShared(t.Context(), "shared"))
	}
	gpus, err := locker.Semaphore("gpus", 5)
	must(gpus, err)
	for range 3 {
		must(gpus.Acquire(t.Context()))
	}
	busy := s.newLocker(longLease, redlock.WithOwner("pod-8"), redlock.WithFences(), redlock.WithoutRenewal(), redlock.WithDeadlockDetection(100*time.Millisecond))
	job, err := busy.Acquire(t.Context(), "job")
	must(job, err)
	s.put("foreign", "d41d8cd98f00b204", longLease, 1, 2, 3, 4, 5)
	s.put("split", hand("1", "pod-1"), longLease, 1, 2)
	s.put("split", hand("2", "pod-2"), longLease, 3)
	s.put("old", hand("7", "worker-2"), longLease, 4)
	s.put("bare", hand("a", "pod-3"), longLease, 1, 2, 3)
	s.put("revoked", "ql:revoked:"+strings.Repeat("f", 32)+":pod-9 hangs", longLease, 1, 2, 3, 4)
	s.put("revoked", hand("9", "pod-9"), longLease, 5)
	do(t, s.servers[0], "SET", prefix+"data", "of others")
	// The last votes of an acquire come when it has returned, and a try of another one may be
	// before them.
	waits := false
	patient.Until(t, "all nodes have voted", func() bool {
		complete := true
		for _, k := range s.status("-o", "json").Keys {
			complete = complete && (k.Key != "job" || !waits || len(k.Waits) > 0) && (k.State != inspect.KeyAtQuorum || k.Key == "bare") && !strings.Contains(k.Text, "short") && !strings.Contains(k.Text, "exactly a quorum, ")
			for _, slot := range k.Slots {
				complete = complete && slot.State == inspect.KeyHeld && slot.Text == "held"
			}
			for _, reader := range k.Readers {
				complete = complete && reader.Nodes == 5
			}
		}
		if !complete || waits {
			return complete
		}
		waits = true
		go func() { _, _ = busy.Acquire(job.Context(), "42") }() // until the Locker is closed
		go func() {
			for range busy.Watch(t.Context(), "job") { //nolint:errcheck // who listens may wait for it, so its holder's waits may be in a ring
			}
		}()
		return false
	})
	return s
}

// run runs the command on the nodes.
func (s *site) run(args ...string) result {
	s.t.Helper()
	return run(s.t, append(s.env(), "QUORUMLOCK_TTL=1m", s.timeout), args...)
}

// status runs status, and reads its JSON.
func (s *site) status(args ...string) (r inspect.StatusReport) {
	s.t.Helper()
	got := s.run(append([]string{"status"}, args...)...)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil {
		s.t.Fatalf("status = %d, %q: %v", got.code, got.talk, err)
	}
	return r
}

// settled is a report of status, with what differs from run to run made the same.
func (s *site) settled() (r inspect.StatusReport) {
	s.t.Helper()
	text := s.run("status", "-o", "json").out
	for i, server := range s.servers {
		text = strings.ReplaceAll(text, `"`+server.Addr+`"`, fmt.Sprintf(`"10.0.0.%d:6379"`, i+1))
	}
	for pattern, instead := range map[string]string{
		`"time": "[^"]*"`:                               `"time": "2026-01-02T03:04:05Z"`,
		`"since": "[^"]*"`:                              `"since": "2026-01-02T03:03:03Z"`,
		`"since_s": [^,\n]*`:                            `"since_s": 1.5`,
		`"(left_s|gone_s)": [1-9][^,\n]*`:               `"$1": 598.2`,
		`"error": "[^"]*"`:                              `"error": "dial: connection refused"`,
		`("owner": "pod-[78]"[^}]*"token": ")[0-9a-f]*`: `${1}a3f1`,
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, instead)
	}
	for name, next := range map[string]int{"fence": 1763715000123507, "slot": 0} {
		text = regexp.MustCompile(`"`+name+`": \d+`).ReplaceAllStringFunc(text, func(string) string {
			next++
			return fmt.Sprintf(`"%s": %d`, name, next-1)
		})
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	return r
}

func TestStatusSaysWhatIsHeldAndByWhom(t *testing.T) {
	t.Parallel()
	s := holdAll(t)
	r := s.status("-o", "json")
	for _, want := range []struct {
		key, owner, text string
		state            inspect.KeyState
	}{
		{"42", "pod-7", "held", inspect.KeyHeld},
		{"bare", "pod-3", "held at exactly a quorum", inspect.KeyAtQuorum},
		{"foreign", "", "another library", inspect.KeyForeign},
		{"gpus", "", "3 of 5 permits", inspect.KeyPermits},
		{"job", "pod-8", "held", inspect.KeyHeld},
		{"old", "worker-2", "left over at node 4", inspect.KeyLeftOver},
		{"revoked", "", "revoked: pod-9 hangs", inspect.KeyRevoked},
		{"set:a", "pod-7", "held", inspect.KeyHeld},
		{"set:b", "pod-7", "held", inspect.KeyHeld},
		{"shared", "", "shared by 3 readers", inspect.KeyShared},
		{"split", "pod-1", "split: nobody has it", inspect.KeySplit},
	} {
		i := slices.IndexFunc(r.Keys, func(k inspect.KeyStatus) bool { return k.Key == want.key })
		if i < 0 {
			t.Errorf("%s is not in the report", want.key)
			continue
		}
		k := r.Keys[i]
		r.Keys = slices.Delete(r.Keys, i, i+1)
		if k.State != want.state || k.Text != want.text || want.owner != "" && (k.Holder == nil || k.Holder.Owner != want.owner) {
			t.Errorf("%s is %s, %q, held by %+v; want %s, %q, %q", want.key, k.State, k.Text, k.Holder, want.state, want.text, want.owner)
		}
		if want.state == inspect.KeyHeld && k.Fence == 0 {
			t.Errorf("%s has no fence", want.key)
		}
		if k.Left == nil || want.key != "gpus" && want.key != "old" && (*k.Left <= 0 || *k.Left > longLease.Seconds()) {
			t.Errorf("%s is free in %v s, want up to the lease", want.key, k.Left)
		}
	}
	if len(r.Keys) > 0 || r.Others != 1 {
		t.Errorf("the report has %+v besides, and %d keys that hold no lock; want none, and 1", r.Keys, r.Others)
	}
}

func TestStatusLooksOnlyAtKeysThatAreNamed(t *testing.T) {
	t.Parallel()
	s := holdAll(t)
	s.all("CONFIG", "RESETSTAT")
	r := s.status("-o", "json", "42", "gpus", "nobody", "old", "data")
	var got []string
	for _, k := range r.Keys {
		got = append(got, k.Key+" "+string(k.State))
	}
	if want := []string{"42 held", "data foreign", "gpus permits", "nobody free", "old left-over"}; !slices.Equal(got, want) {
		t.Errorf("the report has %q, want %q", got, want)
	}
	for i, server := range s.servers {
		if stats := do(t, server, "INFO", "commandstats"); strings.Contains(stats, "cmdstat_scan:") || strings.Contains(stats, "cmdstat_dbsize:") {
			t.Errorf("node %d was asked for all of its keys: %s", i+1, stats)
		}
	}
	wants(t, "status of a free key", s.run("status", "nobody"), exitOK, "2> nothing is held\n")
}

func TestTheScreensOfStatus(t *testing.T) {
	t.Parallel()
	s := holdAll(t)
	s.servers[1].Kill()
	s.servers[4].Kill()
	wants(t, "with two nodes down status", s.run("status"), exitOK, "pod-7", "2> "+s.servers[1].Addr, "2> "+s.servers[4].Addr)
	r := s.settled()
	screens(t, "status", func(tl *tool) error {
		return errors.Join(tl.printer().end(&r), tl.print(strings.Join(statusNotes(&r, true), "\n")+"\n"))
	})
}

func TestLongNamesAreCutToTheScreen(t *testing.T) {
	votes := []inspect.VoteStatus{{Mark: inspect.MarkHolder}, {Mark: inspect.MarkNone}, {Mark: inspect.MarkUnknown}}
	r := &inspect.StatusReport{Nodes: make([]inspect.NodeStatus, 3), Keys: []inspect.KeyStatus{{
		Key: strings.Repeat("tenant:", 30) + "42", State: inspect.KeyRevoked, Text: "revoked: " + strings.Repeat("why ", 40), Votes: votes, Fence: 1763715000123507,
	}, {
		Key: "\x1b[2Jé", State: inspect.KeyHeld, Text: "held", Votes: votes, Holder: &inspect.HolderStatus{Owner: strings.Repeat("ö", 300), Token: "a3f1"},
	}}}
	for _, width := range []int{60, 80, 120, 200} {
		var out strings.Builder
		(&statusPage{nodes: 3, now: r.Time, screen: screen{width: width}}).write(&out, r.Keys, false)
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(line)) - 1; n > width {
				t.Errorf("a line has %d columns on a screen of %d: %q", n, width, line)
			}
		}
		if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), ":42 ") {
			t.Errorf("a screen of %d columns has an escape, or not the end of a key:\n%s", width, out.String())
		}
	}
}

func TestTheJSONOfStatusIsAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	s := holdAll(t)
	s.servers[1].Kill()
	got := s.run("status", "-o", "json")
	if faults := conforms(t, "status.v1.json", got.out); faults != nil || got.code != exitOK {
		t.Errorf("status -o json = %d, %s; faults: %q", got.code, got.out, faults)
	}
	got = s.run("status", "-o", "jsonl")
	if lines := strings.Count(got.out, "\n"); lines != 11 {
		t.Errorf("status -o jsonl has %d lines, want a key on each of 11:\n%s", lines, got.out)
	}
	for line := range strings.Lines(got.out) {
		var k inspect.KeyStatus
		if err := json.Unmarshal([]byte(line), &k); err != nil || k.Key == "" || k.State == "" {
			t.Errorf("a line of status -o jsonl is no key: %q, %v", line, err)
		}
	}
}

// many puts so many locks on three nodes.
func many(t *testing.T, count int) *site {
	t.Helper()
	s := newSite(t, 3, longLease)
	s.timeout = "QUORUMLOCK_NODE_TIMEOUT=20s" // for so many keys, on a busy machine
	var cmds []driver.Command
	for i := range count {
		key := fmt.Sprintf("%s%d", prefix, i)
		cmds = append(cmds, driver.Command{Args: []any{"SET", key, hand("a", "pod-7"), "PX", "600000"}, FirstKey: 1, Keys: 1})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patient.Guard)
	defer cancel()
	for _, n := range s.open() {
		if _, err := n.Driver.Do(ctx, cmds); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestMoreKeysThanArePutInOrderAreAllShown(t *testing.T) {
	t.Parallel()
	const count = 2*mostSorted + 500
	s := many(t, count)
	lines := strings.Split(strings.TrimSuffix(s.run("status").out, "\n"), "\n")
	at := strings.Index(lines[0], "1 2 3")
	shown := make(map[string]bool)
	for _, line := range lines[1:] {
		shown[strings.Fields(line)[0]] = true
		if runes := []rune(line); at < 0 || string(runes[min(at, len(runes)):]) != "● ● ●  held" {
			t.Fatalf("the votes of a row are not below %q:\n%s", lines[0], line)
		}
	}
	if len(lines) != 1+count || len(shown) != count {
		t.Errorf("status has %d rows of %d keys, want one for each of %d", len(lines)-1, len(shown), count)
	}
	got := s.run("status", "-o", "json")
	var r inspect.StatusReport
	if err := json.Unmarshal([]byte(got.out), &r); err != nil || len(r.Keys) != count || len(r.Nodes) != 3 {
		t.Errorf("the JSON has %d keys of %d nodes, %v; want %d and 3", len(r.Keys), len(r.Nodes), err, count)
	}
	if faults := conforms(t, "status.v1.json", got.out); faults != nil {
		t.Errorf("the JSON has the faults %q", faults)
	}
	if lines := strings.Count(s.run("status", "-o", "jsonl").out, "\n"); lines != count {
		t.Errorf("status -o jsonl has %d lines, want %d", lines, count)
	}
	if got := s.run("status", "--check"); got != (result{}) {
		t.Errorf("a check of what is fine = %+v, want 0 and no output", got)
	}
}

// A hookedWriter calls a hook at its first write, whose error it returns.
type hookedWriter struct {
	text   strings.Builder
	writes int
	hook   func() error
}

func (w *hookedWriter) Write(p []byte) (int, error) {
	w.writes++
	if err := w.hook(); err != nil {
		return 0, err
	}
	return w.text.Write(p)
}

func TestAListThatIsLongIsCutOffInTheMiddle(t *testing.T) {
	t.Parallel()
	const count = 4 * mostSorted
	s := many(t, count)
	for _, format := range []string{"table", "json", "jsonl"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, tt := range []struct {
			name string
			hook func() error
			code int
		}{
			{"a reader that has gone", func() error { return syscall.EPIPE }, exitSoftware},
			{"an interrupt", func() error { cancel(interrupted(syscall.SIGINT)); return nil }, 128 + int(syscall.SIGINT)},
		} {
			w := &hookedWriter{hook: tt.hook}
			tl := &tool{out: w, talk: io.Discard, getenv: having()}
			code := tl.run(ctx, []string{"status", "--rate", "1000", "-o", format, "--prefix", prefix, "--nodes", strings.Join(s.urls, ",")})
			if code != tt.code || w.writes < 1 || w.writes > 2 { // a page may have been on its way
				t.Errorf("%s: after %s status ends with %d behind %d writes, want %d behind the first", format, tt.name, code, w.writes, tt.code)
			}
		}
	}
}

func TestNoWholeTokenIsShown(t *testing.T) {
	t.Parallel()
	s := holdAll(t)
	var secrets []string
	for _, name := range ask(t, s.servers[0], "KEYS", "*").Elems {
		words := []string{"GET", name.Str}
		switch do(t, s.servers[0], "TYPE", name.Str) {
		case "zset":
			words = []string{"ZRANGE", name.Str, "0", "-1"}
		case "hash":
			words = []string{"HKEYS", name.Str}
		}
		reply := ask(t, s.servers[0], words...)
		secrets = append(secrets, tokens.FindAllString(reply.Str+fmt.Sprint(reply.Elems), -1)...)
	}
	if len(secrets) < 10 {
		t.Fatalf("the nodes have the secrets %q, want more", secrets)
	}
	s.servers[2].Freeze()
	t.Cleanup(func() { s.servers[2].Kill() })
	for _, args := range [][]string{nil, {"-o", "json"}, {"-o", "jsonl"}, {"--check"}, {"42", "foreign", "revoked"}} {
		got := s.run(append([]string{"status"}, args...)...)
		for _, secret := range secrets {
			if strings.Contains(got.out+got.talk, secret[:8]) {
				t.Errorf("status %q shows %q:\n%s%s", args, secret, got.out, got.talk)
			}
		}
		if got.out == "" {
			t.Errorf("status %q shows nothing: %s", args, got.talk)
		}
	}
}

func TestACheckEndsWithOneWhereSomethingIsWrong(t *testing.T) {
	t.Parallel()
	s := newSite(t, 5, longLease)
	s.put("fine", hand("1", ""), time.Minute, 1, 2, 3, 4, 5)
	if got := s.run("status", "--check"); got != (result{}) {
		t.Errorf("a check of what is fine = %+v, want 0 and no output", got)
	}
	for _, tt := range []struct {
		key  string
		left time.Duration
		at   [][]int // of each token
		code int
	}{
		{"split", time.Minute, [][]int{{1, 2}, {3, 4}}, 1},
		{"bare", time.Minute, [][]int{{1, 2, 3}}, 1},
		{"old", 2 * time.Minute, [][]int{{1}}, 1},
		{"soon", 50 * time.Second, [][]int{{1}}, 0}, // within a TTL
		{"fleeting", 50 * time.Millisecond, [][]int{{1}, {2}}, 0},
	} {
		for i, nodes := range tt.at {
			s.put(tt.key, hand(fmt.Sprint(i+1), ""), tt.left, nodes...)
		}
		got := s.run("status", "--check")
		if got.code != tt.code || strings.Contains(got.out, "fine") || (tt.code == 1) != strings.Contains(got.out, tt.key) {
			t.Errorf("with %s the check = %+v, want %d, and nothing but that key", tt.key, got, tt.code)
		}
		s.all("DEL", prefix+tt.key)
	}
}

func TestWithoutAQuorumNobodyCanSay(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, longLease)
	s.put("42", hand("1", ""), longLease, 1, 2, 3)
	s.servers[0].Kill()
	s.servers[2].Kill()
	for _, args := range [][]string{{"status"}, {"status", "42"}, {"status", "-o", "json"}} {
		wants(t, strings.Join(args, " "), s.run(args...), exitUnavailable, "2> "+s.servers[0].Addr, "2> 1 of 3 nodes answer, and 2 must")
	}
}

func TestAHangingNodeDoesNotHoldTheOthersUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, longLease)
	s.put("42", hand("1", "pod-7"), longLease, 1, 2, 3)
	s.servers[1].Freeze()
	t.Cleanup(s.servers[1].Kill)
	watch := patient.Start()
	wants(t, "with a node that hangs status", s.run("status"), exitOK, "● ? ●", "2> node 2 ("+s.servers[1].Addr+")")
	if took := watch.Took(); took > 10*time.Second { // one time-out of 1s, and a close of as long
		t.Errorf("with a node that hangs status takes %v", took)
	}
}

func TestAMillionKeysOfOthersAreNotListedUnasked(t *testing.T) {
	t.Parallel()
	s := siteOf(newMasters(t, 1, "enable-debug-command yes"))
	server := s.servers[0]
	const part = inspect.MaxListed / 20 // for which no machine is too slow
	for i := range 20 {
		do(t, server, "DEBUG", "POPULATE", fmt.Sprint(part), fmt.Sprint("other", i), "8")
	}
	do(t, server, "SET", "other", "")
	do(t, server, "SET", prefix+"42", hand("1", "pod-7"), "PX", "600000")
	wants(t, "with a million keys status", s.run("status"), exitUsage, "2> 1000002 keys", "2> --full", "2> takes 10s")
	wants(t, "at another rate status", s.run("status", "--rate", "1000"), exitUsage, "2> takes 16m40s")
	if used := do(t, server, "INFO", "commandstats"); strings.Contains(used, "cmdstat_scan") {
		t.Errorf("what is refused has been listed: %s", used)
	}
	wants(t, "of a key that is named status", s.run("status", "42"), exitOK, "pod-7")
	if got := s.run("status", "--full", "--rate", "100000000"); got.code != exitOK || !strings.Contains(got.out, "pod-7") || strings.Contains(got.talk, "hold no lock") {
		t.Errorf("--full = %+v, want the holder", got)
	}
}

func TestWhatANodeForbidsIsSaidWithTheRuleToPaste(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, longLease)
	s.put("42", hand("1", "pod-7"), longLease, 1, 2, 3)
	urls := slices.Clone(s.urls)
	as := func(node int) {
		s.urls[node-1] = strings.Replace(urls[node-1], "redis://", "redis://look:secret@", 1)
		do(t, s.servers[node-1], "ACL", "SETUSER", "look", "on", ">secret", "~"+prefix+"*", "+get", "+pttl", "+info", "+zrange", "+zscore", "+time", "+acl|whoami")
	}
	as(1)
	// The others are enough to see every lock.
	wants(t, "where one node forbids DBSIZE status", s.run("status"), exitOK, "● ● ●", "2> ACL SETUSER look +get ", "2> +scan +dbsize")
	as(2)
	got := s.run("status")
	if got.code != exitForbidden || got.out != "" || strings.Count(got.talk, "ACL SETUSER look ") != 2 {
		t.Errorf("where two nodes of three forbid it status = %+v, want %d and the rules", got, exitForbidden)
	}
	wants(t, "of a key that is named status", s.run("status", "42"), exitOK, "● ● ●")
	rule := regexp.MustCompile(`ACL SETUSER look [^)\n]+`).FindString(s.run("status").talk)
	do(t, s.servers[1], "ACL", "SETUSER", "look", "~*") // behind which a server takes no other pattern
	for _, server := range s.servers[:2] {
		do(t, server, strings.Fields(rule)...)
	}
	if got = s.run("status"); got.code != exitOK || got.talk != "" || !strings.Contains(got.out, "pod-7") {
		t.Errorf("with the rule %q pasted status = %+v, want the holder", rule, got)
	}
}

func TestANodeInQuarantineHasHollowVotes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, longLease)
	s.ripen(time.Minute, 0)
	// A node that came back with another history keeps its keys, and sits out.
	do(t, s.servers[2], "HSET", "ql:memory", "id", strings.Repeat("0", 40))
	s.all("SET", "42", hand("1", "pod-7"), "PX", "600000")
	wants(t, "with a node in quarantine status", run(t, []string{"QUORUMLOCK_NODES=" + s.nodes}, "status", "--guard", "--longest-ttl", "1m"), exitOK,
		"● ● ○", "held at exactly a quorum", "2> node 3 ("+s.servers[2].Addr+") is in quarantine")
}

func TestStatusWaitsUntilAKeyIsFree(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	held := must(s.locker.Acquire(s.ctx(), "42"))(t)
	s.everywhere(prefix + "42")
	ended := make(chan result, 1)
	go func() { ended <- s.run("status", "--wait-free", "42") }()
	patient.Until(t, "status --wait-free listens for the release", func() bool {
		select {
		case got := <-ended:
			t.Fatalf("of a key that is held status --wait-free has ended: %+v", got)
		default:
		}
		return s.announced("42") > 0
	})
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != (result{}) {
		t.Errorf("when the key is free status --wait-free = %+v, want 0 and nothing", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted(syscall.SIGINT))
	wants(t, "status --wait-free, interrupted,", runIn(ctx, t, s.env(), "status", "--wait-free", "42"), 128+int(syscall.SIGINT))
}

func TestTABCompletesTheKeysThatAreHeld(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, time.Minute)
	for _, key := range []string{"nightly", "night shift", "daily"} {
		must(s.locker.Acquire(s.ctx(), key, redlock.WithoutRenewal()))(t)
		s.everywhere(prefix + key)
	}
	for args, want := range map[string]string{
		"status ":         "daily\nnight shift\nnightly\n:4\n",
		"status daily ni": "night shift\nnightly\n:4\n",
		"release night":   "night shift\nnightly\n:4\n",
		"release daily ":  ":4\n",
	} {
		if got := s.run(append([]string{"__complete"}, strings.Split(args, " ")...)...); got.out != want {
			t.Errorf("TAB behind %q completes to %q (%s), want %q", args, got.out, got.talk, want)
		}
	}
}

func TestARedisClusterIsNotListedByHalf(t *testing.T) {
	t.Parallel()
	w := newWard(t, "cluster-enabled yes")
	w.serveSlots("16383", 1, 2, 3)
	w.all("SET", "42", hand("1", "pod-7"), "PX", "600000")
	env := []string{"QUORUMLOCK_NODES=" + w.nodes}
	wants(t, "of Redis Clusters status", run(t, env, "status"), exitUsage, "2> name the keys", "2> Redis Cluster")
	wants(t, "of a key that is named status", run(t, env, "status", "42"), exitOK, "● ● ●")
}
