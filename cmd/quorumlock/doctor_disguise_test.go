package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/test/certificates"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// What servers of a test's own cannot be made to do stands in their answers.
func TestEachRowIsFoundInWhatServersAnswer(t *testing.T) {
	t.Parallel()
	private := []string{"10.9.0.1", "10.9.0.2", "10.9.0.3"}
	spike := driver.Reply{Kind: driver.Array, Elems: []driver.Reply{{Kind: driver.Array, Elems: []driver.Reply{
		{Kind: driver.String, Str: "fork"}, {Kind: driver.Integer, Int: 1700000000}, {Kind: driver.Integer, Int: 3}, {Kind: driver.Integer, Int: 900},
	}}}}
	huge := driver.Reply{Kind: driver.String, Str: "Dave, …\n- I detected a non zero amount of anonymous huge pages used by your process."}
	at := func(now []string) func(*inspect.Options, *[]string) {
		return func(_ *inspect.Options, hosts *[]string) { *hosts = now }
	}
	for _, tt := range []struct {
		name     string
		finds    string // as in a row
		hosts    []string
		disguise func(node int) disguise
		options  inspect.Options
		cured    func(o *inspect.Options, hosts *[]string) // what the cure says, if the disguise is not all
	}{
		{name: "nodes on one machine", finds: "warning same-host: 10.9.0.1", hosts: []string{"10.9.0.1", "10.9.0.1", "10.9.0.3"}, cured: at(private)},
		{name: "no password off the loopback", finds: "warning auth: 10.9.0.1", hosts: private, cured: at(nil)},
		{name: "plain text over the internet", finds: "warning tls: 203.0.113.5", hosts: []string{"10.9.0.1", "10.9.0.2", "203.0.113.5"}, cured: at(private)},
		{
			name: "a server before SET NX GET", finds: "unfit version: syntax error",
			disguise: answers(2, func(cmd []string, reply driver.Reply) driver.Reply {
				if cmd[0] == "SET" && strings.Contains(strings.Join(cmd, " "), " NX GET ") {
					return driver.Reply{Kind: driver.Failure, Str: "ERR syntax error"}
				}
				return reply
			}),
		},
		{
			name: "an old server that nothing may be written to", finds: "unfit version: redis 6.2.14",
			options: inspect.Options{ReadOnly: true}, disguise: answers(2, field("redis_version", "6.2.14")),
		},
		{
			name: "a server without WAITAOF", finds: "unfit version: WAITAOF unknown", options: inspect.Options{Settings: inspect.Settings{Durable: true}},
			cured: func(o *inspect.Options, _ *[]string) { o.Durable = false },
		},
		{name: "servers of two makers", finds: "info version: redis valkey", disguise: answers(2, field("redis_version", "7.2.4\r\nvalkey_version:8.1.1"))},
		{name: "a disk that is full", finds: "unfit persistence: aof last write status err", disguise: answers(1, field("aof_last_write_status", "err"))},
		{name: "a server that loads its data", finds: "warning reach: loading", disguise: answers(1, field("loading", "1"))},
		{name: "a fork that took long", finds: "warning latency: fork 300ms", disguise: answers(1, field("latest_fork_usec", "300000"))},
		{name: "a delay that the server has noted", finds: "warning latency: event fork", disguise: answers(1, instead("LATENCY LATEST", spike))},
		{name: "huge pages", finds: "warning latency: transparent hugepages on", disguise: answers(1, instead("LATENCY DOCTOR", huge))},
		{
			name: "a node that is far away", finds: "warning latency: p99", options: inspect.Options{Settings: inspect.Settings{NodeTimeout: 45 * time.Millisecond}},
			// At the greatest scale it still answers within the second that an examination allows.
			disguise: func(node int) disguise { return disguise{delay: time.Duration(node/3) * 25 * time.Millisecond} },
			cured:    func(o *inspect.Options, _ *[]string) { o.NodeTimeout = 9 * time.Second },
		},
		{
			name: "a quorum that is far away", finds: "unfit latency: quorum p99",
			options:  inspect.Options{Settings: inspect.Settings{TTL: 80 * time.Millisecond, NodeTimeout: 79 * time.Millisecond}},
			disguise: func(int) disguise { return disguise{delay: 25 * time.Millisecond} },
			cured:    func(o *inspect.Options, _ *[]string) { o.TTL = time.Minute },
		},
		{
			name: "a clock that is off", finds: "warning clock: offset ",
			disguise: answers(3, clock(func(now time.Time) time.Time { return now.Add(5 * time.Second) })),
		},
		{
			name: "a clock that is set", finds: "warning clock: step",
			disguise: func(node int) disguise {
				var asked atomic.Int32
				return answers(3, clock(func(now time.Time) time.Time {
					if asked.Add(1) > 5 {
						now = now.Add(time.Minute)
					}
					return now
				}))(node)
			},
		},
		{
			name: "a clock that runs too fast", finds: "unfit clock: drift ppm ", // by so much that a busy machine cannot blur it
			options: inspect.Options{For: 2500 * time.Millisecond, Settings: inspect.Settings{Drift: 0.4}},
			disguise: func(node int) disguise {
				begun := time.Now()
				return answers(3, clock(func(now time.Time) time.Time { return now.Add(now.Sub(begun) * 3 / 4) }))(node)
			},
		},
		{name: "a time that is not told", finds: "unknown clock: TIME NOPERM", disguise: answers(1, refuses("TIME"))},
		{name: "nothing that is told", finds: "unknown acl: untold cluster, eviction, limits", disguise: answers(1, refuses("INFO"))},
		{
			name: "a command that scripts could do without, and that is forbidden", finds: "warning scripts: compare and delete false",
			disguise: answers(1, refuses("DELIFEQ")),
		},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			o := tt.options
			if o.For == 0 {
				o.For = 400 * time.Millisecond
			}
			if o.NodeTimeout == 0 && !strings.Contains(tt.finds, "latency") {
				o.NodeTimeout = 2 * time.Second // which no busy machine exceeds
			}
			patient.AtScales(t, func(scale time.Duration) error {
				o := o
				o.For, o.TTL, o.NodeTimeout = scale*o.For, scale*o.TTL, scale*o.NodeTimeout
				nodes, endpoints := w.disguised(tt.hosts, func(node int) (one disguise) {
					if tt.disguise != nil {
						one = tt.disguise(node)
					}
					one.delay *= scale
					return one
				})
				o.Endpoints = endpoints
				r := inspect.Doctor(t.Context(), nodes, o)
				if _, ok := found(r, tt.finds); !ok {
					return fmt.Errorf("no finding %q; there are%s", tt.finds, listing(r))
				}
				return nil
			})
			if tt.cured != nil {
				tt.cured(&o, &tt.hosts)
			}
			nodes, endpoints := w.disguised(tt.hosts, nil)
			if o.Endpoints = endpoints; tt.disguise != nil && tt.cured != nil {
				nodes, o.Endpoints = w.disguised(tt.hosts, tt.disguise)
			}
			r := inspect.Doctor(t.Context(), nodes, o)
			if f, ok := found(r, tt.finds); ok {
				t.Errorf("%q is found where there is none: %v", tt.finds, f.Seen)
			}
		})
	}
}

// answers disguises one node.
func answers(which int, instead func([]string, driver.Reply) driver.Reply) func(node int) disguise {
	return func(node int) disguise {
		if node == which {
			return disguise{instead: instead}
		}
		return disguise{}
	}
}

// instead answers one command.
func instead(command string, answer driver.Reply) func([]string, driver.Reply) driver.Reply {
	return func(cmd []string, reply driver.Reply) driver.Reply {
		if strings.Join(cmd, " ") == command {
			return answer
		}
		return reply
	}
}

// refuses forbids a command.
func refuses(name string) func([]string, driver.Reply) driver.Reply {
	return func(cmd []string, reply driver.Reply) driver.Reply {
		if cmd[0] == name {
			return driver.Reply{Kind: driver.Failure, Str: fmt.Sprintf("NOPERM this user has no permissions to run the '%s' command", strings.ToLower(name))}
		}
		return reply
	}
}

// clock answers TIME by another clock.
func clock(shows func(time.Time) time.Time) func([]string, driver.Reply) driver.Reply {
	return func(cmd []string, reply driver.Reply) driver.Reply {
		if cmd[0] != "TIME" {
			return reply
		}
		seconds, _ := strconv.ParseInt(reply.Elems[0].Str, 10, 64)
		micros, _ := strconv.ParseInt(reply.Elems[1].Str, 10, 64)
		now := shows(time.Unix(seconds, micros*1000))
		return driver.Reply{Kind: driver.Array, Elems: []driver.Reply{
			{Kind: driver.String, Str: fmt.Sprint(now.Unix())}, {Kind: driver.String, Str: fmt.Sprint(now.Nanosecond() / 1000)},
		}}
	}
}

func TestACertificateThatEndsIsRenewedByTheCure(t *testing.T) {
	t.Parallel()
	files := certificates.New(t)
	for _, tt := range []struct {
		left  time.Duration
		finds string
	}{{20 * 24 * time.Hour, "warning tls 1"}, {time.Hour, "unfit tls 1"}} {
		files.Renew(t, tt.left)
		addr := redisserver.FreeAddr(t)
		_, port, _ := strings.Cut(addr, ":")
		s := redisserver.Start(t, files.Config(port)...)
		w := &ward{t: t, servers: []*redisserver.Server{s}, nodes: "rediss://" + addr + "?ca=" + files.CA, args: []string{"--for", "100ms"}}
		f, ok := found(w.examine(), tt.finds)
		if !ok || len(commands(f.Mend)) != 1 {
			t.Fatalf("a certificate that ends in %v is no finding with a command: %+v", tt.left, w.examine())
		}
		// The authority is a new one, too; an operator keeps his.
		ca := files.CA
		files.Renew(t, 90*24*time.Hour)
		do(t, s, "CONFIG", "SET", "tls-ca-cert-file", ca)
		paste(t, []string{strings.Replace(commands(f.Mend)[0], "-p "+port+" --tls --cacert "+ca, "-p "+s.Port, 1)})
		if r := w.examine(); r.Nodes[0].State == inspect.Down {
			t.Errorf("after the cure: %s", listing(r))
		} else if _, ok := found(r, tt.finds); ok {
			t.Errorf("a new certificate is not seen after the cure:%s", listing(r))
		}
	}
}

func TestACertificateOfTheClientsOwnThatEndsIsFound(t *testing.T) {
	t.Parallel()
	files := certificates.New(t)
	files.Renew(t, 90*24*time.Hour)
	addr := redisserver.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	s := redisserver.Start(t, append(files.Config(port), "tls-auth-clients yes")...)
	cert, key := files.Client(t, 90*24*time.Hour)
	w := &ward{t: t, servers: []*redisserver.Server{s}, nodes: "rediss://" + addr + "?ca=" + files.CA + "&cert=" + cert + "&key=" + key, args: []string{"--for", "100ms"}}
	const warning, unfit = "warning tls 1: client certificate ends", "unfit tls 1: client certificate ends"
	for days, finds := range map[int][2]bool{90: {false, false}, 20: {true, false}, 1: {false, true}} {
		files.Issue(t, cert, key, time.Duration(days)*24*time.Hour)
		r := w.examine()
		_, warns := found(r, warning)
		_, ends := found(r, unfit)
		if finds != [2]bool{warns, ends} {
			t.Errorf("a certificate of the client's that ends in %d days is a warning: %v, and unfit: %v; want %v", days, warns, ends, finds)
		}
	}
}

func TestADeploymentThatIsFitIsCalledSo(t *testing.T) {
	t.Parallel()
	w := newWard(t, "appendonly yes", "appendfsync always")
	nodes, endpoints := w.disguised([]string{"10.9.0.1", "10.9.0.2", "10.9.0.3"}, nil)
	for i := range endpoints {
		endpoints[i].Password = "secret" // as far as the doctor can tell
	}
	r := inspect.Doctor(t.Context(), nodes, inspect.Options{
		Settings: inspect.Settings{NodeTimeout: 2 * time.Second}, Endpoints: endpoints, For: 2500 * time.Millisecond, Accepted: []string{"here"},
	})
	if r.Verdict != inspect.Fit || r.Fit != 3 || r.Quorum != 2 || !strings.Contains(r.Summary, "3 of 3 nodes are fit") {
		t.Errorf("verdict %s, %d fit of quorum %d, %q, want all fit; there are%s", r.Verdict, r.Fit, r.Quorum, r.Summary, listing(r))
	}
	for _, n := range r.Nodes {
		if n.State != inspect.Fit || n.RTT <= 0 || n.Offset == nil || n.Drift == nil || n.Acquire == nil || n.Acquire.Samples == 0 || !strings.HasPrefix(n.Server, "redis ") {
			t.Errorf("the report on a fit node lacks something: %+v", n)
		}
	}
}

func TestADoctorLeavesNothingAndReadOnlyWritesNothing(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{false, true} {
		w := newWard(t)
		if readOnly {
			w.args = append(w.args, "--read-only")
		}
		w.examine()
		for i := range w.servers {
			if n := ask(t, w.servers[i], "DBSIZE").Int; n != 0 {
				t.Errorf("read-only %v: %d keys are left at server %d", readOnly, n, i+1)
			}
			if dirty := w.infoField(i+1, "rdb_changes_since_last_save:"); readOnly != (dirty == "0") {
				t.Errorf("read-only %v: the look has changed %s keys, want none, or some where it may", readOnly, dirty)
			}
		}
	}
}
