package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// tooFull is from where on something that has a bound is nearly used up.
const tooFull = 0.8

// infoMissing notes for a row that INFO was refused. It reports whether it was.
func (t *target) infoMissing(id, what string) bool {
	if t.replies["INFO"].Kind == driver.String {
		return false
	}
	t.cannotTell(id, what, "info", t.replies["INFO"])
	return true
}

// checkVersion says whether the server knows the commands of locks.
func (t *target) checkVersion() {
	const update = "# update the server: Redis 7.0 or later, Valkey or Redict"
	switch first := t.trial.first; {
	case protocol.Says(first, "ERR"):
		t.find("version", Unfit, Seen{"server": t.report.Server, "SET NX GET": refused(first)}, "it does not know SET with NX and GET, which every acquire is", update)
	case !t.trial.tried && t.ancient():
		t.find("version", Unfit, Seen{"server": t.report.Server}, "it does not know SET with NX and GET, which every acquire is", update)
	case !t.trial.tried && t.report.Server == "":
		t.infoMissing("version", "whether it knows SET with NX and GET")
	}
	if t.exam.Durable && slices.Contains(t.rights.unknown, "waitaof") {
		t.find("version", Unfit, Seen{"server": t.report.Server, "WAITAOF": "unknown"}, "durable votes want WAITAOF: without it the node has no vote", "# update the server: Redis 7.2 or later, or Valkey")
	}
	t.checkRefusal()
}

// checkRefusal says that the node refuses locks, where no other row says why.
func (t *target) checkRefusal() {
	switch code := t.trial.missed.Err(); {
	case protocol.Says(t.trial.missed, "OOM"):
		t.find("eviction", Unfit, Seen{"SET": code.Error(), "maxmemory": t.info["maxmemory_human"]}, "its memory is full, and it refuses locks",
			"# give locks a node of their own, or more memory: redis-cli config set maxmemory BYTES")
	case code == nil, protocol.Says(t.trial.missed, "NOPERM"), protocol.Says(t.trial.missed, "READONLY"), protocol.Says(t.trial.missed, "ERR"),
		protocol.Says(t.trial.missed, "MISCONF") && t.info["rdb_last_bgsave_status"]+t.info["aof_last_write_status"] != "okok", t.info["cluster_enabled"] == "1":
		// the rows of acl, role, version, persistence and cluster say so
	default:
		t.find("reach", Unfit, Seen{"SET": code.Error()}, "it refuses locks", "# see why; then look again")
	}
}

// ancient reports whether the server says that it is older than SET with NX and GET.
func (t *target) ancient() bool {
	version, ok := strings.CutPrefix(t.report.Server, "redis ")
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	return ok && err == nil && major < 7
}

// checkFamilies says that servers of several makers are mixed.
func (e *exam) checkFamilies() {
	var families []string
	for _, t := range e.targets {
		if name := t.family(); name != "" && !slices.Contains(families, name) {
			families = append(families, name)
		}
	}
	if len(families) > 1 {
		e.find("version", Info, Seen{"servers": strings.Join(families, " ")},
			"servers of several makers are mixed: that works, and each has commands of its own")
	}
}

// checkRole says that the node is a replica, or has replicas that may forget votes.
func (t *target) checkRole() {
	if t.infoMissing("role", "whether it is a master") {
		return
	}
	replicas, _ := t.count("connected_slaves")
	switch role := t.info["role"]; {
	case role != "master":
		master := t.info["master_host"] + ":" + t.info["master_port"]
		t.find("role", Unfit, Seen{"role": role, "master": master}, "a replica has no vote: it refuses writes",
			"# give clients its master "+master+" in its place; or, if it is to be a node of its own:",
			t.redis("replicaof", "no", "one"))
	case replicas > 0 && t.exam.Replicated == 0:
		fix := []string{"# let votes wait for the replicas: --replicated " + fmt.Sprint(replicas) + "; or detach them:"}
		for i := range replicas {
			of := fields(strings.ReplaceAll(t.info[fmt.Sprintf("slave%d", i)], ",", "\n"), "=")
			if of["ip"] != "" {
				fix = append(fix, fmt.Sprintf("redis-cli -h %s -p %s replicaof no one", of["ip"], of["port"]))
			}
		}
		t.find("role", Warning, Seen{"replicas": replicas}, "a replica that is promoted has forgotten votes", fix...)
	}
}

// checkCluster says that the node is a Redis Cluster in bad health, or one that cannot do what the
// settings want.
func (t *target) checkCluster() {
	if t.infoMissing("cluster", "whether it is a Redis Cluster") || t.info["cluster_enabled"] != "1" {
		return
	}
	if t.strays > 0 {
		t.find("cluster", Unfit, Seen{"keys": t.strays, "of": strayKeys, "GET": t.moved},
			"it is one shard of a Redis Cluster, and has no vote for the keys of the others; shards of one Cluster are no independent nodes",
			"# give single servers, none of them part of a Cluster: a whole Cluster is one node, and only for programs that give its Cluster client")
	}
	if t.exam.RestartGuard || t.exam.Durable || t.exam.Replicated > 0 {
		t.find("cluster", Unfit, Seen{"cluster_enabled": "1"},
			"guard, replicated and durable votes need single servers: masters of a Redis Cluster come and go by themselves",
			"# give a single server in place of "+t.Name+", or drop these settings")
	}
	info := t.replies["CLUSTER INFO"]
	if info.Kind != driver.String {
		t.cannotTell("cluster", "whether all slots are served", "cluster|info", info)
		return
	}
	state := fields(info.Str, ":")
	fix := []string{"# it asks before it changes anything:", "redis-cli --cluster fix " + quote(t.Name)}
	switch seen := (Seen{"cluster_state": state["cluster_state"], "slots_assigned": state["cluster_slots_assigned"]}); {
	case state["cluster_state"] != "ok":
		t.find("cluster", Unfit, seen, "the cluster refuses commands", fix...)
	case state["cluster_slots_assigned"] != "16384":
		t.find("cluster", Warning, seen, "keys of slots that nobody serves have no vote here", fix...)
	}
}

// checkEviction says that the node may evict locks, or is about to refuse them.
func (t *target) checkEviction() {
	if t.infoMissing("eviction", "whether it evicts keys") {
		return
	}
	limit, _ := t.count("maxmemory")
	used, _ := t.count("used_memory")
	policy := t.info["maxmemory_policy"]
	if limit == 0 {
		return
	}
	seen := Seen{"maxmemory": t.info["maxmemory_human"], "policy": policy, "used": t.info["used_memory_human"], "evicted_keys": t.info["evicted_keys"]}
	if policy != "noeviction" {
		t.find("eviction", Unfit, seen, "when its memory is full every lock can be evicted, and somebody else gets it",
			t.redis("config", "set", "maxmemory-policy", "noeviction"), alsoInFile)
	}
	if float64(used) > tooFull*float64(limit) {
		t.find("eviction", Warning, seen, "when its memory is full it refuses locks",
			t.redis("config", "set", "maxmemory", fmt.Sprint(2*max(used, limit))), "# and in redis.conf; or give locks a node of their own")
	}
}

// Words of cures.
const (
	alsoInFile = "# and set it in redis.conf, too"
	withGuard  = "# give all clients --guard, which keeps it from voting then; or "
)

// checkPersistence says that the disk does not keep what the settings want, or that a crash
// forgets locks.
func (t *target) checkPersistence() {
	if t.infoMissing("persistence", "whether it keeps locks over a crash") {
		return
	}
	aof := t.info["aof_enabled"] == "1"
	on := t.redis("config", "set", "appendonly", "yes", "appendfsync", "always")
	stops, _, _ := t.config("stop-writes-on-bgsave-error")
	saves, _, told := t.config("save")
	switch seen := (Seen{"aof_enabled": t.info["aof_enabled"], "aof_last_write_status": t.info["aof_last_write_status"], "rdb_last_bgsave_status": t.info["rdb_last_bgsave_status"]}); {
	case t.info["aof_last_write_status"] == "err":
		t.find("persistence", Unfit, seen, "it cannot write its append-only file, and refuses locks (MISCONF)", "# fix its disk: it tries again by itself")
	case t.info["rdb_last_bgsave_status"] == "err" && (stops == "yes" && saves != "" || !told):
		t.find("persistence", Unfit, seen, "it cannot write its snapshots, and refuses locks (MISCONF)", "# fix its disk; then:", t.redis("bgsave"))
	case t.exam.Durable && !aof:
		t.find("persistence", Unfit, seen, "durable votes want an append-only file: without one it has no vote", on, alsoInFile)
	case !aof && !t.exam.RestartGuard:
		t.find("persistence", Warning, seen, "after a crash it has forgotten its locks, and votes at once",
			withGuard+"keep locks on disk:", on, alsoInFile)
	}
	if !aof || t.exam.RestartGuard && !t.exam.Durable {
		return
	}
	switch sync, reply, ok := t.config("appendfsync"); {
	case !ok:
		t.cannotTell("persistence", "whether each vote is synced", "config|get", reply)
	case sync == "always":
	case t.exam.Durable:
		t.find("persistence", Warning, Seen{"appendfsync": sync}, "a durable vote waits for the next sync, up to 1s, and some servers answer before it has ended",
			t.redis("config", "set", "appendfsync", "always"), alsoInFile)
	default:
		t.find("persistence", Warning, Seen{"appendfsync": sync}, "after a power cut it has forgotten the locks of its last seconds, and votes at once",
			withGuard+"sync each vote:", t.redis("config", "set", "appendfsync", "always"), alsoInFile)
	}
}

// checkLimits says that the node is about to refuse connections, or cuts idle ones.
func (t *target) checkLimits() {
	if t.infoMissing("limits", "how many connections it has left") {
		return
	}
	clients, ok1 := t.count("connected_clients")
	most, ok2 := t.count("maxclients")
	if ok1 && ok2 && float64(clients) > tooFull*float64(most) {
		t.find("limits", Warning, Seen{"connected_clients": clients, "maxclients": most},
			"when no connection is left clients that come are refused", t.redis("config", "set", "maxclients", fmt.Sprint(2*most)), alsoInFile)
	}
	timeout, reply, ok := t.config("timeout")
	if !ok {
		t.cannotTell("limits", "whether it cuts idle connections", "config|get", reply)
		return
	}
	if timeout != "0" {
		t.find("limits", Warning, Seen{"timeout": timeout + "s"}, "it cuts idle connections: the next lock has to connect first",
			t.redis("config", "set", "timeout", "0"), alsoInFile)
	}
	if alive, _, ok := t.config("tcp-keepalive"); ok && alive == "0" {
		t.find("limits", Warning, Seen{"tcp-keepalive": alive}, "connections that a firewall has dropped are never noticed",
			t.redis("config", "set", "tcp-keepalive", "300"), alsoInFile)
	}
}
