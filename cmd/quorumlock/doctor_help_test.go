package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// A ward is servers of a test.
type ward struct {
	t       testing.TB
	servers []*redisserver.Server
	nodes   string   // QUORUMLOCK_NODES
	args    []string // of the command
}

// newWard starts three servers, with further lines of their configuration.
func newWard(t *testing.T, config ...string) *ward {
	t.Helper()
	w := newMasters(t, 3, config...)
	w.args = []string{"--for", "100ms", "--node-timeout", "5s"} // which no busy machine exceeds
	return w
}

// newMasters starts servers that nobody examines.
func newMasters(t testing.TB, n int, config ...string) *ward {
	t.Helper()
	w := &ward{t: t}
	for range n {
		w.servers = append(w.servers, redisserver.Start(t, config...))
	}
	w.nodes = nodesOf(w.servers)
	return w
}

// nodesOf lists servers as QUORUMLOCK_NODES does.
func nodesOf(servers []*redisserver.Server) string {
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = "redis://" + s.Addr
	}
	return strings.Join(urls, ",")
}

// examine runs doctor, and returns what it has found.
func (w *ward) examine() (r inspect.Report) {
	w.t.Helper()
	got := run(w.t, []string{"QUORUMLOCK_NODES=" + w.nodes}, slices.Concat([]string{"doctor", "-o", "json"}, w.args)...)
	if err := json.Unmarshal([]byte(got.out), &r); err != nil {
		w.t.Fatalf("doctor = %d, %q: %v", got.code, got.talk, err)
	}
	if want := map[inspect.Severity]int{inspect.Fit: 0, inspect.Warning: 1, inspect.Unfit: 2, inspect.Unknown: 3}[r.Verdict]; got.code != want {
		w.t.Errorf("doctor exits with %d and says %q, want code %d", got.code, r.Verdict, want)
	}
	return r
}

// found returns a finding as rows name it: a severity, an id, the number of a node (none: anywhere), and what is in it.
func found(r inspect.Report, finds string) (f inspect.Finding, ok bool) {
	var severity inspect.Severity
	var id string
	var node int
	what, seen, _ := strings.Cut(finds, ": ")
	_, _ = fmt.Sscan(what, &severity, &id, &node) // without a node: 0
	all := r.All()
	if node > 0 {
		all = r.Nodes[node-1].Findings
	}
	i := slices.IndexFunc(all, func(f inspect.Finding) bool { return f.ID == id && f.Severity == severity })
	if i < 0 {
		return f, false
	}
	return all[i], strings.Contains(all[i].Seen.String(), seen)
}

// listing shows findings in a failure.
func listing(r inspect.Report) string {
	var text strings.Builder
	for _, f := range r.All() {
		fmt.Fprintf(&text, "\n%s %s %s: %v: %s %q", f.Node, f.Severity, f.ID, f.Seen, f.Why, f.Mend)
	}
	return text.String()
}

// do sends a command to a server, as an administrator who needs no password.
func (w *ward) do(server int, words ...string) string {
	w.t.Helper()
	return do(w.t, w.servers[server-1], words...)
}

func do(t testing.TB, s *redisserver.Server, words ...string) string {
	t.Helper()
	return ask(t, s, words...).Str
}

func ask(t testing.TB, s *redisserver.Server, words ...string) driver.Reply {
	t.Helper()
	reply := s.Ask(words...)
	if err := reply.Err(); err != nil {
		t.Fatalf("%q at %s: %v", words, s.Addr, err)
	}
	return reply
}

// paste runs the lines of a cure in a shell, as an operator would, in a folder of the test's own.
// What begins with # does nothing there.
func paste(t *testing.T, mend []string) {
	t.Helper()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not here: install redis-tools")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "PASSWORD"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range mend {
		shell := exec.CommandContext(t.Context(), "sh", "-c", line)                      //nolint:gosec // what the doctor says
		shell.Dir, shell.Stdin = folder, strings.NewReader(strings.Repeat("yes\n", 100)) // for who asks back
		said, err := shell.CombinedOutput()
		if answer := strings.TrimSpace(string(said)); err != nil || strings.HasPrefix(answer, "ERR") || strings.Contains(answer, "NOPERM") || strings.Contains(answer, "Unrecognized") {
			t.Fatalf("%s: %v: %s", line, err, answer)
		}
	}
}

// commands are the lines of a cure that do something.
func commands(mend []string) (lines []string) {
	return slices.DeleteFunc(slices.Clone(mend), func(line string) bool { return strings.HasPrefix(line, "#") })
}

// A disguise is a driver that answers otherwise than the server: "" where the server is right.
type disguise struct {
	driver.Driver
	instead func(cmd []string, reply driver.Reply) driver.Reply
	delay   time.Duration // of each batch
}

func (d *disguise) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	if d.delay > 0 {
		select {
		case <-time.After(d.delay): // it stands for a network
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	replies, err := d.Driver.Do(ctx, cmds)
	if err == nil && d.instead != nil {
		for i, cmd := range cmds {
			words := make([]string, len(cmd.Args))
			for j, arg := range cmd.Args {
				words[j] = arg.(string)
			}
			replies[i] = d.instead(words, replies[i])
		}
	}
	return replies, err
}

// Subscribe keeps the contract of [driver.Subscriber].
func (d *disguise) Subscribe(ctx context.Context, onNotice func(driver.Notice)) (driver.Subscription, error) {
	return d.Driver.(driver.Subscriber).Subscribe(ctx, onNotice)
}

// disguised opens the nodes of a ward behind disguises, and says where they seem to be.
func (w *ward) disguised(hosts []string, d func(node int) disguise) ([]driver.Node, []inspect.Endpoint) {
	w.t.Helper()
	nodes, err := goredis.Open(strings.Split(w.nodes, ",")...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { closeNodes(nodes) })
	seen := slices.Clone(nodes)
	endpoints := make([]inspect.Endpoint, len(nodes))
	for i := range seen {
		one := disguise{}
		if d != nil {
			one = d(i + 1)
		}
		one.Driver = nodes[i].Driver
		seen[i].Driver = &one
		_, port, _ := net.SplitHostPort(nodes[i].Name)
		addr := nodes[i].Name
		if hosts != nil {
			addr = net.JoinHostPort(hosts[i], port)
		}
		endpoints[i] = inspect.Endpoint{Endpoint: &driver.Endpoint{Network: "tcp", Addr: addr}, CLI: "redis-cli -p " + port}
	}
	return seen, endpoints
}

// field answers INFO with another value of a field.
func field(name, value string) func([]string, driver.Reply) driver.Reply {
	return func(cmd []string, reply driver.Reply) driver.Reply {
		if cmd[0] == "INFO" {
			before, after, _ := strings.Cut("\r\n"+reply.Str, "\r\n"+name+":")
			_, after, _ = strings.Cut(after, "\r\n")
			reply.Str = before + "\r\n" + name + ":" + value + "\r\n" + after
		}
		return reply
	}
}
