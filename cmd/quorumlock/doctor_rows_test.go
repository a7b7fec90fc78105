package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
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
	name     string
	config   []string // of all servers
	args     []string // of the command, beside --for
	spoil    func(w *ward)
	id       string
	severity inspect.Severity
	node     int    // at which the finding is; 0: anywhere
	seen     string // is in it
	verdict  inspect.Severity
	pastes   int           // so many lines of the cure do something
	mend     func(w *ward) // what the cure says in words, before its lines are pasted
	wait     bool          // the server takes a moment to be mended
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

// Every row of the table is made to happen on servers, the finding is seen, its cure is pasted into
// a shell, and the finding is gone.
func TestEachRowIsFoundAndItsCureMends(t *testing.T) {
	t.Parallel()
	guard := []string{"--guard", "--longest-ttl", "1m"}
	files := certificates.New(t)
	var resume func() // a server that is halted
	for _, tt := range []row{
		{
			name: "a node that is down", id: "reach", severity: inspect.Warning, node: 2, seen: "refused", pastes: 1,
			spoil: func(w *ward) { w.servers[1].Kill() },
			mend:  func(w *ward) { w.servers[1] = redisserver.StartAt(w.t, w.servers[1].Addr) },
		},
		{
			name: "a node that hangs", id: "reach", severity: inspect.Warning, node: 1, seen: "deadline", pastes: 1,
			spoil: func(w *ward) { thaw := w.servers[0].Freeze(); w.t.Cleanup(thaw) },
			mend:  func(w *ward) { w.servers[0].Signal(syscall.SIGCONT) },
		},
		{
			name: "fewer than a quorum", id: "reach", severity: inspect.Unfit, seen: "answer 1", verdict: inspect.Unfit,
			spoil: func(w *ward) { w.servers[1].Kill(); w.servers[2].Kill() },
			mend: func(w *ward) {
				for i := 1; i < 3; i++ {
					w.servers[i] = redisserver.StartAt(w.t, w.servers[i].Addr)
				}
			},
		},
		{
			name: "no node", id: "count", severity: inspect.Unfit, seen: "answer 0", verdict: inspect.Unfit,
			spoil: func(w *ward) {
				for _, s := range w.servers {
					s.Kill()
				}
			},
			mend: func(w *ward) {
				for i, s := range w.servers {
					w.servers[i] = redisserver.StartAt(w.t, s.Addr)
				}
			},
		},
		{
			name: "two nodes", id: "count", severity: inspect.Warning, seen: "nodes 2",
			spoil: func(w *ward) { w.nodes = w.nodes[:strings.LastIndex(w.nodes, ",")] },
			mend:  func(w *ward) { w.nodes += ",redis://" + w.servers[2].Addr },
		},
		{
			name: "an even number", id: "count", severity: inspect.Warning, seen: "nodes 4",
			spoil: func(w *ward) { w.nodes += ",redis://" + redisserver.Start(w.t).Addr },
			mend:  func(w *ward) { w.nodes = w.nodes[:strings.LastIndex(w.nodes, ",")] },
		},
		{
			name: "a password that is missing", id: "auth", severity: inspect.Warning, node: 1, seen: "NOAUTH",
			spoil: func(w *ward) { w.do(1, "CONFIG", "SET", "requirepass", "secret") },
			mend:  func(w *ward) { w.nodes = strings.Replace(w.nodes, "redis://", "redis://:secret@", 1) },
		},
		{
			name: "a password that is wrong", id: "auth", severity: inspect.Warning, node: 1, seen: "WRONGPASS",
			spoil: func(w *ward) {
				w.do(1, "CONFIG", "SET", "requirepass", "secret")
				w.nodes = strings.Replace(w.nodes, "redis://", "redis://:wrong@", 1)
			},
			mend: func(w *ward) { w.nodes = strings.Replace(w.nodes, ":wrong@", ":secret@", 1) },
		},
		{
			name: "TLS where there is none", id: "tls", severity: inspect.Warning, node: 1,
			spoil: func(w *ward) { w.nodes = strings.Replace(w.nodes, "redis://", "rediss://", 1) },
			mend:  func(w *ward) { w.nodes = strings.Replace(w.nodes, "rediss://", "redis://", 1) },
		},
		{
			name: "no TLS where there is nothing else", id: "tls", severity: inspect.Warning, node: 1, seen: "it speaks TLS at this port",
			spoil: func(w *ward) {
				s := w.servers[0]
				s.Kill()
				w.servers[0] = redisserver.StartAt(w.t, s.Addr, append(files.Config(s.Port), "port 0")...)
			},
			mend: func(w *ward) {
				addr := w.servers[0].Addr
				w.nodes = strings.Replace(w.nodes, "redis://"+addr, "rediss://"+addr+"?ca="+files.CA, 1)
			},
		},
		{
			name: "no TLS where a certificate of the client's is wanted as well", id: "tls", severity: inspect.Warning, node: 1, seen: "it speaks TLS at this port",
			spoil: func(w *ward) {
				s := w.servers[0]
				s.Kill()
				w.servers[0] = redisserver.StartAt(w.t, s.Addr, append(files.Config(s.Port), "port 0", "tls-auth-clients yes", "tls-protocols TLSv1.2")...)
			},
			mend: showCertificate(files),
		},
		{
			name: "a certificate of the client's is wanted", id: "tls", severity: inspect.Warning, node: 1, seen: "?cert=FILE&key=FILE",
			spoil: func(w *ward) {
				s := w.servers[0]
				s.Kill()
				w.servers[0] = redisserver.StartAt(w.t, s.Addr, append(files.Config(s.Port), "port 0", "tls-auth-clients yes")...)
				w.nodes = strings.Replace(w.nodes, "redis://"+s.Addr, "rediss://"+s.Addr+"?ca="+files.CA, 1)
			},
			mend: showCertificate(files),
		},
		{
			name: "one server twice", id: "same-server", severity: inspect.Unfit, node: 3, seen: "run id", verdict: inspect.Unfit,
			spoil: func(w *ward) {
				w.nodes = w.nodes[:strings.LastIndex(w.nodes, ",")] + ",redis://localhost:" + w.servers[0].Port
			},
			mend: func(w *ward) {
				w.nodes = strings.Replace(w.nodes, "localhost:"+w.servers[0].Port, w.servers[2].Addr, 1)
			},
		},
		{
			name: "one server twice, beside another one of its machine", id: "same-server", severity: inspect.Unfit, node: 3, seen: "run id", verdict: inspect.Unfit,
			spoil: func(w *ward) {
				w.nodes = w.nodes[:strings.LastIndex(w.nodes, ",")] + ",redis://localhost:" + w.servers[1].Port
			},
			mend: func(w *ward) {
				w.nodes = strings.Replace(w.nodes, "localhost:"+w.servers[1].Port, w.servers[2].Addr, 1)
			},
		},
		{
			name: "a replica", id: "role", severity: inspect.Unfit, node: 2, seen: "role slave", pastes: 1, verdict: inspect.Unfit,
			spoil: func(w *ward) { w.do(2, "REPLICAOF", "127.0.0.1", w.servers[0].Port) },
		},
		{
			name: "a master with a replica", id: "role", severity: inspect.Warning, node: 1, seen: "replicas 1", pastes: 1, wait: true,
			spoil: func(w *ward) { w.follow(redisserver.Start(w.t), 1) },
		},
		{
			name: "a Redis Cluster that is not ready", config: []string{"cluster-enabled yes"},
			id: "cluster", severity: inspect.Unfit, node: 1, seen: "cluster state fail", pastes: 1, verdict: inspect.Unfit, wait: true,
		},
		{
			name: "a Redis Cluster with slots of nobody", config: []string{"cluster-enabled yes", "cluster-require-full-coverage no"},
			id: "cluster", severity: inspect.Warning, node: 1, seen: "slots assigned 8192", pastes: 1, verdict: inspect.Unfit, wait: true,
			spoil: func(w *ward) {
				w.do(1, "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
				w.until(1, "cluster_state:ok", "CLUSTER", "INFO")
			},
		},
		{
			name: "a Redis Cluster under the guard", config: []string{"cluster-enabled yes"}, args: guard,
			id: "cluster", severity: inspect.Unfit, node: 1, seen: "cluster enabled 1", verdict: inspect.Unfit,
			spoil: func(w *ward) {
				w.all("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
				w.until(1, "cluster_state:ok", "CLUSTER", "INFO")
			},
			mend: func(w *ward) { w.args = w.args[:4] },
		},
		{
			name: "shards of one Redis Cluster", id: "cluster", severity: inspect.Unfit, node: 1, seen: "MOVED", verdict: inspect.Unfit,
			spoil: func(w *ward) {
				var urls []string
				for _, s := range redisserver.StartCluster(w.t, 3) {
					urls = append(urls, "redis://"+s.Addr)
				}
				w.nodes = strings.Join(urls, ",")
			},
			mend: func(w *ward) {
				w.nodes = fmt.Sprintf("redis://%s,redis://%s,redis://%s", w.servers[0].Addr, w.servers[1].Addr, w.servers[2].Addr)
			},
		},
		{
			name: "a node that evicts", id: "eviction", severity: inspect.Unfit, node: 3, seen: "policy volatile-lru", pastes: 1, verdict: inspect.Unfit,
			spoil: func(w *ward) { w.do(3, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-lru") },
		},
		{
			name: "a memory that is nearly full", id: "eviction", severity: inspect.Warning, node: 3, seen: "maxmemory", pastes: 1,
			spoil: func(w *ward) { w.do(3, "CONFIG", "SET", "maxmemory", fmt.Sprint(w.number(3, "used_memory:")*8/7)) },
		},
		{
			name: "a memory that is full", id: "eviction", severity: inspect.Unfit, node: 3, seen: "OOM", verdict: inspect.Unfit,
			spoil: func(w *ward) { w.do(3, "CONFIG", "SET", "maxmemory", "1mb") },
			mend:  func(w *ward) { w.do(3, "CONFIG", "SET", "maxmemory", "1gb") },
		},
		{
			name: "a power cut that forgets the last second", config: []string{"appendonly yes"}, id: "persistence", severity: inspect.Warning, node: 1, seen: "appendfsync everysec", pastes: 1,
		},
		{
			name: "durable votes without a file", args: []string{"--durable"}, id: "persistence", severity: inspect.Unfit, node: 2, seen: "aof enabled 0", pastes: 1, verdict: inspect.Unfit,
		},
		{
			name: "durable votes that wait for the next second", config: []string{"appendonly yes"}, args: []string{"--durable"},
			id: "persistence", severity: inspect.Warning, node: 2, seen: "appendfsync everysec", pastes: 1, verdict: inspect.Unfit, // as 7.0 has no WAITAOF
		},
		{
			name: "a crash that forgets", id: "persistence", severity: inspect.Warning, node: 1, seen: "aof enabled 0", pastes: 1,
		},
		{
			name: "snapshots that fail", config: []string{"dbfilename folder"}, id: "persistence", severity: inspect.Unfit, node: 1, seen: "rdb last bgsave status err", pastes: 1, verdict: inspect.Unfit, wait: true,
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
		{
			name: "a record for other leases", args: guard, id: "guard", severity: inspect.Unfit, node: 1, seen: "clients longest ttl 30s", verdict: inspect.Unfit,
			spoil: func(w *ward) { w.ripen(30*time.Second, 0) }, mend: func(w *ward) { w.ripen(time.Minute, 0) },
		},
		{
			name: "a guard that these clients do not have", id: "guard", severity: inspect.Unfit, node: 1, seen: "longest ttl 1m0s", pastes: 1, verdict: inspect.Unfit,
			spoil: func(w *ward) { w.ripen(time.Minute, 0) },
		},
		{
			name: "a guard that nobody may look for", args: []string{"--prefix", "orders:"}, id: "acl", severity: inspect.Warning, node: 1, seen: "untold guard", pastes: 2,
			spoil: func(w *ward) { w.user("resetkeys", "~orders:*", "+@all") },
		},
		{
			name: "nodes of another set", args: guard, id: "guard", severity: inspect.Unfit, node: 1, seen: "ours 60000 0:3", verdict: inspect.Unfit,
			spoil: func(w *ward) { w.ripen(time.Minute, 7) }, mend: func(w *ward) { w.ripen(time.Minute, 0) },
		},
		{
			name: "a record that is none", args: guard, id: "guard", severity: inspect.Unfit, node: 1, seen: "ql:memory", pastes: 1, verdict: inspect.Unfit,
			spoil: func(w *ward) {
				w.ripen(time.Minute, 0)
				w.do(1, "DEL", "ql:memory")
				w.do(1, "SET", "ql:memory", "mine")
			},
			mend: func(w *ward) { w.do(1, "DEL", "ql:memory"); w.ripen(time.Minute, 0) },
		},
		{
			name: "keys of a build before the first release", args: guard, id: "guard", severity: inspect.Info, node: 1, seen: "keys ql:epoch ql:set", pastes: 1,
			spoil: func(w *ward) { w.ripen(time.Minute, 0); w.do(1, "MSET", "ql:epoch", "v1 x", "ql:set", "v1 0:3@1") },
		},
		{
			name: "a node that was restarted", args: guard, id: "guard", severity: inspect.Warning, node: 1, seen: "record none",
			spoil: func(w *ward) {
				w.ripen(time.Minute, 0)
				w.servers[0].Kill()
				w.servers[0] = redisserver.StartAt(w.t, w.servers[0].Addr)
			},
			mend: func(w *ward) { w.ripen(time.Minute, 0) }, // which clients do in a minute
		},
		{
			name: "a node that came back with its file", args: guard, id: "guard", severity: inspect.Warning, node: 1, seen: "record of another history",
			spoil: func(w *ward) { w.ripen(time.Minute, 0); w.do(1, "HSET", "ql:memory", "id", strings.Repeat("0", 40)) },
			mend:  func(w *ward) { w.ripen(time.Minute, 0) },
		},
		{
			name: "a backlog that ends", args: append(guard, "--replicated", "1"), id: "guard", severity: inspect.Warning, node: 1, seen: "repl-backlog-ttl 3600s", pastes: 1,
			spoil: func(w *ward) { w.follow(redisserver.Start(w.t), 1); w.ripen(time.Minute, 0) },
		},
		{
			name: "a node that stands still nearly all the time", args: []string{"--node-timeout", "450ms", "--for", "2s"},
			id: "reach", severity: inspect.Warning, node: 2, pastes: 1, wait: true, // which on a busy machine may be down
			spoil: func(w *ward) { resume = halt(w.t, w.servers[1], 700*time.Millisecond, 45*time.Millisecond) },
			mend:  func(*ward) { resume() },
		},
		{
			name: "a delay that the server has noted", config: []string{"enable-debug-command yes", "latency-monitor-threshold 50"}, args: []string{"--node-timeout", "250ms"},
			id: "latency", severity: inspect.Warning, node: 2, seen: "event command", pastes: 1,
			spoil: func(w *ward) { w.do(2, "DEBUG", "SLEEP", "0.4") },
		},
		{
			name: "a user without scripts and any other way", id: "acl", severity: inspect.Unfit, node: 1, seen: "also scripts, for locks, lacks +eval +evalsha", pastes: 1, verdict: inspect.Unfit,
			spoil: func(w *ward) { w.user("+@all", "-eval", "-evalsha") },
		},
		{
			name: "scripts that the server has no name for", config: []string{`rename-command EVAL ""`}, id: "scripts", severity: inspect.Unfit, node: 1, seen: "scripts false", verdict: inspect.Unfit,
			mend: func(w *ward) {
				w.servers[0].Kill()
				w.servers[0] = redisserver.StartAt(w.t, w.servers[0].Addr)
			},
		},
		{
			name: "a user who lacks a right of locks", id: "acl", severity: inspect.Unfit, node: 1, seen: "lacks +pexpire", pastes: 1, verdict: inspect.Unfit,
			spoil: func(w *ward) { w.user("+@all", "-pexpire", "-acl|dryrun") },
		},
		{
			name: "the same by a dry run", args: []string{"--acl-user", "locks"}, id: "acl", severity: inspect.Unfit, node: 1, seen: "lacks +pexpire, user locks", pastes: 1, verdict: inspect.Unfit,
			spoil: func(w *ward) {
				w.all("ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all", "-flushall", "-pexpire")
			},
		},
		{
			name: "a user who lacks the fences' keys", args: []string{"--fences", "--prefix", "orders:"}, id: "acl", severity: inspect.Unfit, node: 1, seen: "lacks +zadd +zrange +zremrangebyscore +zscore ~ql:fences:*", pastes: 3, verdict: inspect.Unfit,
			spoil: func(w *ward) {
				w.user("resetkeys", "~orders:*", "+set", "+get", "+del", "+pttl", "+pexpire", "+eval", "+evalsha", "+info", "+time", "+client|info")
			},
		},
		{
			name: "a user who lacks what is not in force", args: []string{"--prefix", "orders:"}, id: "acl", severity: inspect.Warning, node: 1, seen: "for AcquireAll, Semaphore, AcquireShared, WithFences", pastes: 2,
			spoil: func(w *ward) { w.user("resetkeys", "~orders:*", "+@all", "-acl|dryrun", "-zadd") },
		},
		{
			name: "a user that there is not", args: []string{"--acl-user", "locks"}, id: "acl", severity: inspect.Unfit, node: 1, seen: "user locks", pastes: 1, verdict: inspect.Unfit,
		},
		{
			name: "a user who may do more", args: []string{"--acl-user", "locks", "--prefix", "orders:"}, id: "acl", severity: inspect.Info, node: 1, seen: "may FLUSHALL", pastes: 1,
			spoil: func(w *ward) {
				w.all("ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all")
			},
			mend: func(w *ward) { // the line of the report does it, too, and leaves the password
				w.do(1, strings.Fields(w.examine().Nodes[0].ACL)...)
				w.do(1, "AUTH", "locks", "secret")
			},
		},
		{
			name: "a user who may not ask what it may do", id: "acl", severity: inspect.Unknown, node: 1, seen: "ACL DRYRUN NOPERM", pastes: 1, args: []string{"--acl-user", "locks"},
			spoil: func(w *ward) {
				w.all("ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*", "+@all")
				w.user("+@all", "-acl|dryrun")
			},
		},
		{
			name: "waiters that are not woken", id: "acl", severity: inspect.Warning, node: 1, seen: "also wake-ups, for waiters are woken, lacks &ql:free:*", pastes: 1,
			spoil: func(w *ward) { w.user("resetchannels", "+@all") },
		},
		{
			name: "waiters that nobody may wake, asked of alone", args: []string{"--check=wake-ups"}, id: "wake-ups", severity: inspect.Warning, node: 1, seen: "'publish' command", pastes: 1,
			spoil: func(w *ward) { w.user("+@all", "-publish") },
		},
		{
			name: "listeners with a small buffer", id: "wake-ups", severity: inspect.Warning, node: 1, seen: "4096", pastes: 1,
			spoil: func(w *ward) { w.do(1, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 4096 0 0") },
		},
		{
			name: "connections that run out", id: "limits", severity: inspect.Warning, node: 1, seen: "maxclients 12", pastes: 1,
			spoil: func(w *ward) {
				w.do(1, "CONFIG", "SET", "maxclients", "12")
				w.connect(1, 10)
			},
		},
		{
			name: "idle connections that are cut", id: "limits", severity: inspect.Warning, node: 1, seen: "timeout 60s", pastes: 1,
			spoil: func(w *ward) { w.do(1, "CONFIG", "SET", "timeout", "60") },
		},
		{
			name: "connections that are never looked at", id: "limits", severity: inspect.Warning, node: 1, seen: "tcp-keepalive 0", pastes: 1,
			spoil: func(w *ward) { w.do(1, "CONFIG", "SET", "tcp-keepalive", "0") },
		},
		{
			name: "other data under the prefix", args: []string{"--prefix", "orders:"}, id: "foreign", severity: inspect.Unfit, node: 1, seen: "keys 2, such as orders:it's", pastes: 2, verdict: inspect.Unfit,
			spoil: func(w *ward) { w.do(1, "HSET", "orders:it's", "a", "1"); w.do(1, "SET", "orders:total", "7") },
		},
		{
			name: "other data in the database", id: "foreign", severity: inspect.Warning, node: 1, seen: "type hash", pastes: 1,
			spoil: func(w *ward) { w.do(1, "HSET", "stats", "a", "1") },
			mend:  func(w *ward) { w.args = append(w.args, "--prefix", "orders:") },
		},
		{
			name: "locks of another library", args: []string{"--prefix", "orders:"}, id: "foreign", severity: inspect.Warning, node: 1, seen: "keys 1, such as orders:7",
			spoil: func(w *ward) { w.do(1, "SET", "orders:7", "d41d8cd98f00b204", "PX", "60000") },
			mend:  func(w *ward) { w.do(1, "DEL", "orders:7") },
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
			f, ok := find(r, tt.id, tt.severity, tt.node)
			if !ok || !strings.Contains(f.Seen.String(), tt.seen) {
				t.Fatalf("no finding %s (%s) at node %d with %q; there are%s", tt.id, tt.severity, tt.node, tt.seen, listing(r))
			}
			if tt.verdict != "" && r.Verdict != tt.verdict {
				t.Errorf("the verdict is %s, want %s", r.Verdict, tt.verdict)
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
				if f, ok = find(r, tt.id, tt.severity, tt.node); !ok {
					return
				}
				if !tt.wait || time.Now().After(deadline) {
					t.Fatalf("the finding is there after its cure %q: %v; all are%s", f.Mend, f.Seen, listing(r))
				}
			}
		})
	}
}

// follow makes a server a replica of one of the ward's, which is told of it.
func (w *ward) follow(replica *redisserver.Server, master int) {
	w.t.Helper()
	w.do(master, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	do(w.t, replica.Addr, "REPLICAOF", "127.0.0.1", w.servers[master-1].Port)
	w.until(master, "state=online", "INFO", "replication")
}

// halt stops a server again and again, and lets it run in between, until the test ends or resume
// is called.
func halt(t *testing.T, s *redisserver.Server, stopped, running time.Duration) (resume func()) {
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
	for i := range w.servers {
		w.do(i+1, words...)
	}
}

// config is a setting of a server.
func (w *ward) config(server int, name string) string {
	w.t.Helper()
	return ask(w.t, w.servers[server-1].Addr, "CONFIG", "GET", name).Elems[1].Str
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

// user makes the nodes' user at the first server one with these rules, beside all keys and
// channels.
func (w *ward) user(rules ...string) {
	w.t.Helper()
	w.do(1, append([]string{"ACL", "SETUSER", "look", "on", ">secret", "~*", "&*"}, rules...)...)
	addr := w.servers[0].Addr
	w.nodes = strings.Replace(w.nodes, "redis://"+addr, (&url.URL{Scheme: "redis", User: url.UserPassword("look", "secret"), Host: addr}).String(), 1)
}
