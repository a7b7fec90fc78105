package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/inspect"
	"github.com/quorumlock/quorumlock/test/certificates"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// A row is one way in which a deployment is unfit, and what mends it.
type row struct {
	name   string
	config []string // of all servers
	args   []string // of the command, beside --for
	finds  string   // a severity, an id, the number of a node (none: anywhere), and what is in the finding
	unfit  bool     // the verdict is unfit, though the finding is not
	pastes int      // so many lines of the cure do something
	spoil  func(w *ward)
	mend   func(w *ward) // what the cure says in words, before its lines are pasted
	wait   bool          // the server takes a moment to be mended
}

// does sends commands to servers by their numbers; 0: to all.
func does(commands ...string) func(w *ward) {
	return func(w *ward) {
		for _, command := range commands {
			words := strings.Fields(command)
			if number, _ := strconv.Atoi(words[0]); number > 0 {
				w.do(number, words[1:]...)
			} else {
				w.all(words[1:]...)
			}
		}
	}
}

// at does something to servers by their numbers.
func at(do func(w *ward, server int), numbers ...int) func(w *ward) {
	return func(w *ward) {
		for _, n := range numbers {
			do(w, n)
		}
	}
}

// restart starts a server again at its address, empty and with a configuration of its own.
func (w *ward) restart(server int, config ...string) {
	w.t.Helper()
	s := w.servers[server-1]
	s.Kill()
	w.servers[server-1] = redisserver.StartAt(w.t, s.Addr, config...)
}

// says has the list of nodes say something else.
func says(before, after string) func(w *ward) {
	return func(w *ward) { w.nodes = strings.Replace(w.nodes, before, after, 1) }
}

// listed has the list of nodes be that of the servers.
func listed(w *ward) { w.nodes = nodesOf(w.servers) }

// dropLast takes the last node from the list.
func dropLast(w *ward) { w.nodes = w.nodes[:strings.LastIndex(w.nodes, ",")] }

// twice lists a server in the place of the third as well.
func twice(server int) func(w *ward) {
	return func(w *ward) { dropLast(w); w.nodes += ",redis://localhost:" + w.servers[server-1].Port }
}

// asUser has the first node's user be one with these rules, beside all keys and channels.
func asUser(rules string) func(w *ward) {
	return func(w *ward) {
		does("1 ACL SETUSER look on >secret ~* &* " + rules)(w)
		says("redis://"+w.servers[0].Addr, "redis://look:secret@"+w.servers[0].Addr)(w)
	}
}

// ripens gives the nodes records of a minute's longest lease, and does something else then.
func ripens(commands ...string) func(w *ward) {
	return func(w *ward) { w.ripen(time.Minute, 0); does(commands...)(w) }
}

// speaksTLS has the first server serve nothing but TLS.
func speaksTLS(files certificates.Files, config ...string) func(w *ward) {
	return func(w *ward) {
		w.restart(1, slices.Concat(files.Config(w.servers[0].Port), []string{"port 0"}, config)...)
	}
}

// showCertificate gives the first node's URL a certificate of the client's.
func showCertificate(files certificates.Files) func(w *ward) {
	return func(w *ward) {
		addr := w.servers[0].Addr
		cert, key := files.Client(w.t, 90*24*time.Hour)
		_, rest, _ := strings.Cut(w.nodes, ",")
		w.nodes = "rediss://" + addr + "?ca=" + files.CA + "&cert=" + cert + "&key=" + key + "," + rest
	}
}

// trustServer gives the first node's URL the authority of its certificate.
func trustServer(files certificates.Files) func(w *ward) {
	return func(w *ward) {
		addr := w.servers[0].Addr
		says("redis://"+addr, "rediss://"+addr+"?ca="+files.CA)(w)
	}
}

// Every row of the table is made to happen on servers, the finding is seen, its cure is pasted into
// a shell, and the finding is gone.
func TestEachRowIsFoundAndItsCureMends(t *testing.T) {
	t.Parallel()
	guard := []string{"--guard", "--longest-ttl", "1m"}
	orders, locks, cluster := []string{"--prefix", "orders:"}, []string{"--acl-user", "locks"}, []string{"cluster-enabled yes"}
	files := certificates.New(t)
	const everything = "0 ACL SETUSER locks on >secret ~* &* +@all"
	kill := func(w *ward, n int) { w.servers[n-1].Kill() }
	start := func(w *ward, n int) { w.restart(n) }
	hang := func(w *ward, n int) { w.servers[n-1].Signal(syscall.SIGSTOP) }
	wake := func(w *ward, n int) { w.servers[n-1].Signal(syscall.SIGCONT) }
	var resume func() // a server that is halted
	for _, tt := range []row{
		{name: "a node that is down", finds: "warning reach 2: refused", pastes: 1, spoil: at(kill, 2), mend: at(start, 2)},
		{name: "a node that hangs", finds: "warning reach 1: deadline", pastes: 1, spoil: at(hang, 1), mend: at(wake, 1)},
		{name: "nodes that all hang", finds: "unfit count: answer 0", spoil: at(hang, 1, 2, 3), mend: at(wake, 1, 2, 3)},
		{name: "fewer than a quorum", finds: "unfit reach: answer 1", spoil: at(kill, 2, 3), mend: at(start, 2, 3)},
		{name: "no node", finds: "unfit count: answer 0", spoil: at(kill, 1, 2, 3), mend: at(start, 1, 2, 3)},
		{name: "two nodes", finds: "warning count: nodes 2", spoil: dropLast, mend: listed},
		{name: "an even number", finds: "warning count: nodes 4", spoil: func(w *ward) { w.nodes += ",redis://" + redisserver.Start(w.t).Addr }, mend: listed},
		{name: "a password that is missing", finds: "warning auth 1: NOAUTH", spoil: does("1 CONFIG SET requirepass secret"), mend: says("redis://", "redis://:secret@")},
		{
			name: "a password that is wrong", finds: "warning auth 1: WRONGPASS",
			spoil: func(w *ward) { does("1 CONFIG SET requirepass secret")(w); says("redis://", "redis://:wrong@")(w) },
			mend:  says(":wrong@", ":secret@"),
		},
		{name: "TLS where there is none", finds: "warning tls 1: ", spoil: says("redis://", "rediss://"), mend: listed},
		{name: "no TLS where there is nothing else", finds: "warning tls 1: it speaks TLS at this port", spoil: speaksTLS(files), mend: trustServer(files)},
		{
			name: "no TLS where a certificate of the client's is wanted as well", finds: "warning tls 1: it speaks TLS at this port",
			spoil: speaksTLS(files, "tls-auth-clients yes", "tls-protocols TLSv1.2"), mend: showCertificate(files),
		},
		{
			name: "a certificate of the client's is wanted", finds: "warning tls 1: ?cert=FILE&key=FILE",
			spoil: func(w *ward) { speaksTLS(files, "tls-auth-clients yes")(w); trustServer(files)(w) }, mend: showCertificate(files),
		},
		{name: "one server twice", finds: "unfit same-server 3: run id", spoil: twice(1), mend: listed},
		{name: "one server twice, beside another one of its machine", finds: "unfit same-server 3: run id", spoil: twice(2), mend: listed},
		{name: "a replica", finds: "unfit role 2: role slave", pastes: 1, spoil: func(w *ward) { w.do(2, "REPLICAOF", "127.0.0.1", w.servers[0].Port) }},
		{name: "a master with a replica", finds: "warning role 1: replicas 1", pastes: 1, wait: true, spoil: func(w *ward) { w.follow(redisserver.Start(w.t), 1) }},
		{name: "a Redis Cluster that is not ready", config: cluster, finds: "unfit cluster 1: cluster state fail", pastes: 1, wait: true},
		{
			name: "a Redis Cluster with slots of nobody", config: append(cluster, "cluster-require-full-coverage no"),
			finds: "warning cluster 1: slots assigned 8192", unfit: true, pastes: 1, wait: true,
			spoil: func(w *ward) { w.serveSlots("8191", 1) },
		},
		{
			name: "a Redis Cluster under the guard", config: cluster, args: guard, finds: "unfit cluster 1: cluster enabled 1",
			spoil: func(w *ward) { w.serveSlots("16383", 1, 2, 3) },
			mend:  func(w *ward) { w.args = w.args[:4] },
		},
		{
			name: "shards of one Redis Cluster", finds: "unfit cluster 1: MOVED",
			spoil: func(w *ward) { w.nodes = nodesOf(redisserver.StartCluster(w.t, 3)) },
			mend:  listed,
		},
		{name: "a node that evicts", finds: "unfit eviction 3: policy volatile-lru", pastes: 1, spoil: does("3 CONFIG SET maxmemory 100mb maxmemory-policy volatile-lru")},
		{
			name: "a memory that is nearly full", finds: "warning eviction 3: maxmemory", pastes: 1,
			spoil: func(w *ward) { w.do(3, "CONFIG", "SET", "maxmemory", fmt.Sprint(w.number(3, "used_memory:")*8/7)) },
		},
		{name: "a memory that is full", finds: "unfit eviction 3: OOM", spoil: does("3 CONFIG SET maxmemory 1mb"), mend: does("3 CONFIG SET maxmemory 1gb")},
		{name: "a power cut that forgets the last second", config: []string{"appendonly yes"}, finds: "warning persistence 1: appendfsync everysec", pastes: 1},
		{name: "durable votes without a file", args: []string{"--durable"}, finds: "unfit persistence 2: aof enabled 0", pastes: 1},
		{
			name: "durable votes that wait for the next second", config: []string{"appendonly yes"}, args: []string{"--durable"},
			finds: "warning persistence 2: appendfsync everysec", unfit: true, pastes: 1, // as 7.0 has no WAITAOF
		},
		{name: "a crash that forgets", finds: "warning persistence 1: aof enabled 0", pastes: 1},
		{
			name: "snapshots that fail", config: []string{"dbfilename folder"}, finds: "unfit persistence 1: rdb last bgsave status err", pastes: 1, wait: true,
			spoil: func(w *ward) {
				w.do(1, "CONFIG", "SET", "save", "3600 1000000")
				w.do(1, "SET", "k", "v", "PX", "60000")
				if err := os.MkdirAll(filepath.Join(w.config(1, "dir"), "folder", "in-the-way"), 0o700); err != nil {
					w.t.Fatal(err)
				}
				w.do(1, "BGSAVE")
				w.until(1, "rdb_last_bgsave_status:err", "INFO", "persistence")
			},
			mend: func(w *ward) {
				if err := os.RemoveAll(filepath.Join(w.config(1, "dir"), "folder")); err != nil {
					w.t.Fatal(err)
				}
			},
		},
		{name: "a record for other leases", args: guard, finds: "unfit guard 1: clients longest ttl 30s", spoil: func(w *ward) { w.ripen(30*time.Second, 0) }, mend: ripens()},
		{name: "a guard that these clients do not have", finds: "unfit guard 1: longest ttl 1m0s", pastes: 1, spoil: ripens()},
		{name: "a guard that nobody may look for", args: orders, finds: "warning acl 1: untold guard", pastes: 2, spoil: asUser("resetkeys ~orders:* +@all")},
		{name: "nodes of another set", args: guard, finds: "unfit guard 1: ours 60000 0:3", spoil: func(w *ward) { w.ripen(time.Minute, 7) }, mend: ripens()},
		{
			name: "a record that is none", args: guard, finds: "unfit guard 1: ql:memory", pastes: 1,
			spoil: ripens("1 DEL ql:memory", "1 SET ql:memory mine"),
			mend:  func(w *ward) { does("1 DEL ql:memory")(w); ripens()(w) },
		},
		{
			name: "keys of a build before the first release", args: guard, finds: "info guard 1: keys ql:epoch ql:set", pastes: 1,
			spoil: ripens("1 MSET ql:epoch v1 ql:set v1"),
		},
		{
			name: "a node that was restarted", args: guard, finds: "warning guard 1: record none",
			spoil: func(w *ward) { ripens()(w); at(start, 1)(w) },
			mend:  ripens(), // which clients do in a minute
		},
		{
			name: "a node that came back with its file", args: guard, finds: "warning guard 1: record of another history",
			spoil: ripens("1 HSET ql:memory id " + strings.Repeat("0", 40)), mend: ripens(),
		},
		{
			name: "a backlog that ends", args: append(guard, "--replicated", "1"), finds: "warning guard 1: repl-backlog-ttl 3600s", pastes: 1,
			spoil: func(w *ward) { w.follow(redisserver.Start(w.t), 1); ripens()(w) },
		},
		{
			name: "a node that stands still nearly all the time", args: []string{"--node-timeout", "450ms", "--for", "2s"},
			finds: "warning reach 2: ", pastes: 1, wait: true, // which on a busy machine may be down
			spoil: func(w *ward) { resume = halt(w.t, w.servers[1], 700*time.Millisecond, 45*time.Millisecond) },
			mend:  func(*ward) { resume() },
		},
		{
			name: "a delay that the server has noted", config: []string{"enable-debug-command yes", "latency-monitor-threshold 50"}, args: []string{"--node-timeout", "250ms"},
			finds: "warning latency 2: event command", pastes: 1, spoil: does("2 DEBUG SLEEP 0.4"),
		},
		{name: "a user without scripts and any other way", finds: "unfit acl 1: also scripts, for locks, lacks +eval +evalsha", pastes: 1, spoil: asUser("+@all -eval -evalsha")},
		{name: "scripts that the server has no name for", config: []string{`rename-command EVAL ""`}, finds: "unfit scripts 1: scripts false", mend: at(start, 1)},
		{name: "a user who lacks a right of locks", finds: "unfit acl 1: lacks +pexpire", pastes: 1, spoil: asUser("+@all -pexpire -acl|dryrun")},
		{name: "the same by a dry run", args: locks, finds: "unfit acl 1: lacks +pexpire, user locks", pastes: 1, spoil: does(everything + " -flushall -pexpire")},
		{
			name: "a user who lacks the fences' keys", args: append(orders, "--fences"), pastes: 3,
			finds: "unfit acl 1: lacks +zadd +zrange +zremrangebyscore +zscore ~ql:fences:*",
			spoil: asUser("resetkeys ~orders:* +set +get +del +pttl +pexpire +eval +evalsha +info +time +client|info"),
		},
		{
			name: "a user who lacks what is not in force", args: orders, finds: "warning acl 1: for AcquireAll, Semaphore, AcquireShared, WithFences", pastes: 2,
			spoil: asUser("resetkeys ~orders:* +@all -acl|dryrun -zadd"),
		},
		{name: "a user that there is not", args: locks, finds: "unfit acl 1: user locks", pastes: 1},
		{
			name: "a user who may do more", args: append(orders, locks...), finds: "info acl 1: may FLUSHALL", pastes: 1, spoil: does(everything),
			mend: func(w *ward) { // the line of the report does it, too, and leaves the password
				w.do(1, strings.Fields(w.examine().Nodes[0].ACL)...)
				w.do(1, "AUTH", "locks", "secret")
			},
		},
		{
			name: "a user who may not ask what it may do", args: locks, finds: "unknown acl 1: ACL DRYRUN NOPERM", pastes: 1,
			spoil: func(w *ward) { does(everything)(w); asUser("+@all -acl|dryrun")(w) },
		},
		{
			name: "waiters that are not woken", finds: "warning acl 1: also wake-ups, for waiters are woken, lacks &ql:free:*", pastes: 1,
			spoil: asUser("resetchannels +@all"),
		},
		{
			name: "waiters that nobody may wake, asked of alone", args: []string{"--check=wake-ups"}, finds: "warning wake-ups 1: 'publish' command", pastes: 1,
			spoil: asUser("+@all -publish"),
		},
		{
			name: "listeners with a small buffer", finds: "warning wake-ups 1: 4096", pastes: 1,
			spoil: func(w *ward) { w.do(1, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 4096 0 0") },
		},
		{
			name: "connections that run out", finds: "warning limits 1: maxclients 12", pastes: 1,
			spoil: func(w *ward) { does("1 CONFIG SET maxclients 12")(w); w.connect(1, 10) },
		},
		{name: "idle connections that are cut", finds: "warning limits 1: timeout 60s", pastes: 1, spoil: does("1 CONFIG SET timeout 60")},
		{name: "connections that are never looked at", finds: "warning limits 1: tcp-keepalive 0", pastes: 1, spoil: does("1 CONFIG SET tcp-keepalive 0")},
		{
			name: "other data under the prefix", args: orders, finds: "unfit foreign 1: keys 2, such as orders:it's", pastes: 2,
			spoil: does("1 HSET orders:it's a 1", "1 SET orders:total 7"),
		},
		{
			name: "other data in the database", finds: "warning foreign 1: type hash", pastes: 1, spoil: does("1 HSET stats a 1"),
			mend: func(w *ward) { w.args = append(w.args, "--prefix", "orders:") },
		},
		{
			name: "locks of another library", args: orders, finds: "warning foreign 1: keys 1, such as orders:7",
			spoil: does("1 SET orders:7 d41d8cd98f00b204 PX 60000"), mend: does("1 DEL orders:7"),
		},
	} {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := newWard(t, tt.config...)
			w.args = append(w.args, tt.args...)
			if tt.spoil != nil {
				tt.spoil(w)
			}
			r := w.examine()
			f, ok := found(r, tt.finds)
			if !ok {
				t.Fatalf("no finding %q; there are%s", tt.finds, listing(r))
			}
			if (f.Severity == inspect.Unfit || tt.unfit) && r.Verdict != inspect.Unfit {
				t.Errorf("the verdict is %s, want unfit", r.Verdict)
			}
			if tt.mend != nil {
				tt.mend(w)
			}
			if got := commands(f.Mend); len(got) != tt.pastes {
				t.Errorf("the cure has the commands %q, want %d", got, tt.pastes)
			}
			paste(t, f.Mend)
			for deadline := time.Now().Add(patient.Guard); ; {
				r = w.examine()
				what, _, _ := strings.Cut(tt.finds, ": ")
				left, ok := found(r, what)
				if !ok {
					return
				}
				if !tt.wait || time.Now().After(deadline) {
					t.Fatalf("the finding is there after its cure %q: %v; all are%s", left.Mend, left.Seen, listing(r))
				}
			}
		})
	}
}

// follow makes a server a replica of one of the ward's, which is told of it.
func (w *ward) follow(replica *redisserver.Server, master int) {
	w.t.Helper()
	w.do(master, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	do(w.t, replica, "REPLICAOF", "127.0.0.1", w.servers[master-1].Port)
	w.until(master, "state=online", "INFO", "replication")
}

// halt stops a server again and again, and lets it run in between, until the test ends or resume
// is called.
func halt(t testing.TB, s *redisserver.Server, stopped, running time.Duration) (resume func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	pass := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d): // it is the fault itself, and waits for nothing
		}
	}
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			thaw := s.Freeze()
			pass(stopped)
			thaw()
			pass(running)
		}
	}()
	resume = func() { cancel(); <-over }
	t.Cleanup(resume)
	return resume
}

// until waits until a server's answer has a text in it.
func (w *ward) until(server int, text string, words ...string) {
	w.t.Helper()
	patient.Until(w.t, fmt.Sprintf("%q at server %d has %q", words, server, text), func() bool { return strings.Contains(w.do(server, words...), text) })
}

// all sends a command to all servers.
func (w *ward) all(words ...string) {
	w.t.Helper()
	for _, s := range w.servers {
		do(w.t, s, words...)
	}
}

// serveSlots has servers, each by itself, serve slots of a Redis Cluster up to a last one, and waits until they do.
func (w *ward) serveSlots(last string, numbers ...int) {
	w.t.Helper()
	for _, n := range numbers {
		w.do(n, "CLUSTER", "ADDSLOTSRANGE", "0", last)
		w.until(n, "cluster_state:ok", "CLUSTER", "INFO")
	}
}

// config is a setting of a server.
func (w *ward) config(server int, name string) string {
	w.t.Helper()
	return ask(w.t, w.servers[server-1], "CONFIG", "GET", name).Elems[1].Str
}

// connect opens connections to a server, which stay for the test.
func (w *ward) connect(server, connections int) {
	w.t.Helper()
	for range connections {
		conn, err := net.Dial("tcp", w.servers[server-1].Addr) //nolint:noctx // on the loopback
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = conn.Close() })
	}
}

// infoField is a field of INFO.
func (w *ward) infoField(server int, name string) string {
	w.t.Helper()
	_, after, _ := strings.Cut(w.do(server, "INFO"), "\n"+name)
	value, _, _ := strings.Cut(after, "\r\n")
	return value
}

func (w *ward) number(server int, name string) (n int) {
	w.t.Helper()
	if _, err := fmt.Sscan(w.infoField(server, name), &n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// ripen gives the nodes records as if clients of a longest TTL and a node set had watched them for long enough.
func (w *ward) ripen(longest time.Duration, set uint64) {
	w.t.Helper()
	for i := range w.servers {
		w.do(i+1, "HSET", "ql:memory", "id", strings.TrimSpace(w.infoField(i+1, "master_replid:")), "for", fmt.Sprintf("%d %d:%d", longest.Milliseconds(), set, len(w.servers)),
			"age", fmt.Sprint((2 * longest).Microseconds()), "last", "0")
	}
}
