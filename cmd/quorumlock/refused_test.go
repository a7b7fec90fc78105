package main

import (
	"slices"
	"strings"
	"testing"
)

// Nothing is sent to any node.
func TestWhatIsNotValidIsRefusedWithWhatToDo(t *testing.T) {
	const three = "--nodes redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3 "
	profile := func(text string) string { return "QUORUMLOCK_PROFILE=" + file(t, "p.conf", text) + " profile check" }
	nodes := func(text string) string { return "profile check --nodes @" + file(t, "n", text) }
	change := func(args string) string { return "settings " + three + args }
	for _, tt := range []struct {
		args string // variables first
		code int
		says string
	}{
		{"docter", exitUsage, `unknown command "docter"`},
		{"profile chek", exitUsage, `unknown command "chek"`},
		{"profile check --nods x", exitUsage, `See "quorumlock profile check --help".`},
		{"version extra", exitUsage, `"quorumlock version" takes no arguments, and "extra" is one`},
		{"doctor redis://a", exitUsage, "nodes are given by --nodes"},
		{"profile check --fences false", exitUsage, "--FLAG=false"},
		{"status --watch 2", exitUsage, "missing unit"},
		{"profile check -o xml", exitUsage, "want one of table, json, jsonl"},
		{"QUORUMLOCK_NODES= profile check", exitConfig, "--nodes, QUORUMLOCK_NODES or a profile"},
		{"profile check --nodes 10.0.0.1", exitUsage, "want redis://host:port"},
		{"QUORUMLOCK_NODES=http://a profile check", exitConfig, "not redis, rediss, unix, redis-sentinel or redis-cluster"},
		{"profile check --nodes redis://a,redis://:secret@b", exitUsage, "sees in ps: give the URLs in QUORUMLOCK_NODES, in a file (--nodes @FILE)"},
		{"profile check --nodes @/nowhere/nodes", exitConfig, "/nowhere/nodes"},
		{nodes("# none\n"), exitConfig, "want one a line"},
		{nodes("redis://a\n\nredis://:secret@a/x\n"), exitConfig, "n:3: node URL redis://a: database"},
		{"profile check --profile prod", exitConfig, "/etc/quorumlock/prod.conf"},
		{profile("prefx = a:\n"), exitConfig, `p.conf:1: no setting "prefx": want one of `},
		{profile("\nfences\n"), exitConfig, `p.conf:2: want "key = value"`},
		{profile("ttl = 1s\nttl = 2s\n"), exitConfig, "p.conf:2: ttl was set before"},
		{profile("ttl = soon\n"), exitConfig, "p.conf:1: ttl: not a value"},
		{"QUORUMLOCK_TTL=soon profile check", exitConfig, "QUORUMLOCK_TTL: ttl: not a value"},
		{"profile check --ttl 1ms", exitUsage, "--ttl: 1ms is not between"},
		{"QUORUMLOCK_TTL=1ms profile check", exitConfig, "--ttl: 1ms is not between"},
		{"profile check --node-set 3", exitUsage, "quorumlock: --node-set: nobody looks at it without --guard: give both"},
		{"profile check --ttl 1s --node-timeout 5s", exitUsage, "quorumlock: --node-timeout: 5s is not between"},
		{"profile check --replicated -3", exitUsage, "quorumlock: --replicated: -3 replicas are"},
		{"run ql:line:{k} -- true", exitUsage, `"ql:"`},
		{"elect ql:k", exitUsage, `"ql:"`},
		{"status ql:k", exitUsage, `"ql:"`},
		{"release ql:k", exitUsage, `"ql:"`},
		{"profile check --prefix ql:", exitUsage, `"ql:"`},

		{"doctor --fast", exitUsage, "unknown flag: --fast"},
		{"doctor --nodes redis://10.0.0.1:0", exitUsage, "its port is not from 1 to 65535"},
		{"doctor --nodes rediss://a?ca=/nowhere.pem", exitUsage, "/nowhere.pem"},
		{"doctor --check tsl", exitUsage, `no finding "tsl": want some of reach, auth`},
		{"doctor --accept samehost", exitUsage, "want some of reach, auth"},
		{"doctor --for -1s", exitUsage, "--for: -1s is less than 0"},
		{"doctor -o yaml", exitUsage, "nagios, prometheus"},

		{"status --rate 0", exitUsage, "--rate: 0 keys a second"},
		{"status --watch=1ms", exitUsage, "--watch: 1ms is less than 100ms"},
		{"status --watch -1s", exitUsage, "--watch: -1s is less than 100ms"},
		{"status --watch --check", exitUsage, "--check looks once"},
		{"status --wait-free", exitUsage, "--wait-free waits for one KEY"},
		{"status --wait-free a b", exitUsage, "--wait-free waits for one KEY"},
		{"status --wait-free --check a", exitUsage, "--wait-free waits for one KEY"},
		{`status ""`, exitUsage, "Keys: one is empty"},
		{"status -o nagios", exitUsage, "want one of table, json, jsonl"},
		{"status --nodes redis-sentinel://10.0.0.1?master=main&sentinel_password=secret", exitUsage, "sees in ps"},

		{change(""), exitUsage, "From"},
		{change("--from=1m --to=2m"), exitUsage, "From"},
		{change(`--from "60000 0:5" --to "1000 0:3"`), exitUsage, "3 old nodes"},
		{change(`--from "60000 0:3" --to "60000 0:3"`), exitUsage, "other settings"},
		{change(`--from "60000 0:3" --to "1000 0:5"`), exitUsage, "3 new nodes"},
		{change(`--from "60000 0:3" --to "1000 0:3" --gone=10.0.0.1:6379`), exitUsage, "none of the old nodes"},
		{change(`--from "60000 0:3" --to "1000 0:3" --gone=127.0.0.1:1,127.0.0.1:2`), exitUsage, "a quorum of old clients"},

		{"run", exitUsage, "requires at least 1 arg"},
		{"run k", exitUsage, "no program to run"},
		{"run k --", exitUsage, "no program to run"},
		{"run -- true", exitUsage, `no program to run behind "true"`},
		{"run k true", exitUsage, `no program to run behind "k", "true"`},
		{"run k --ttl 5s -- true", exitUsage, `"--ttl" stands behind the key`},
		{"run a b a -- true", exitUsage, `"a" is there twice`},
		{"run --shared a b -- true", exitUsage, "take one KEY"},
		{"run --permits 2 a b -- true", exitUsage, "take one KEY"},
		{"run --permits 2 --shared k -- true", exitUsage, "give one of the two"},
		{"run --permits 0 k -- true", exitUsage, "0 permits let nobody in"},
		{"run --permits -1 k -- true", exitUsage, "not between 1 and 128"},
		{"run --permits 129 k -- true", exitUsage, "not between 1 and 128"},
		{"run --permits 2 --take 3 k -- true", exitUsage, "not between 1 and the 2 of --permits"},
		{"run --permits 2 --take 0 k -- true", exitUsage, "not between 1 and the 2 of --permits"},
		{"run --take 1 k -- true", exitUsage, "give --permits, too"},
		{"run --listen 127.0.0.1:none k -- true", exitConfig, "--listen"},
		{"run --textfile /no/such/folder/file k -- true", exitUsage, "--textfile"},
		{"run k -- no-such-program", 127, "no-such-program"},
		{"run k -- /no/such/program", 127, "/no/such/program"},
		{"run k -- " + file(t, "plain", "no program\n"), 126, "permission denied"},
		{"run k -- /", 126, "is a directory"},
		{"run --ttl 10s --grace 5s k -- true", exitUsage, "grace and margin (100ms) may take half of the TTL 10s"},
		{"run --grace -1s k -- true", exitUsage, "quorumlock: --grace: -1s is not between"},
		{"run -n --ttl 1s k -- true", exitUnavailable, "127.0.0.1:1"}, // the grace is a quarter of it
		{"run -n -w 1s --restart k -- true", exitUsage, "--restart waits for the key for ever"},
		{"run -w -1s k -- true", exitUsage, "not less than 0"},
		{"run --at-least 2m --max-hold 1m k -- true", exitUsage, "--at-least 2m0s is longer than --max-hold 1m0s"},
		{"run --max-hold 1s k -- true", exitUsage, "--max-hold: 1s is less"},
		{"run -E 256 k -- true", exitUsage, "not between 0 and 255"},
		{"run --on-renewal-failure ignore k -- true", exitUsage, "neither kill nor report"},
		{"run --foreground maybe k -- true", exitUsage, "none of auto, yes and no"},
		{"run --signal FOO k -- true", exitUsage, "is no signal"},
		{"run --signal 65 k -- true", exitUsage, "is no signal"},
		{"run --status-fd 1000 k -- true", exitUsage, "want a descriptor that is open for writing"},
		{"run --status-fd -1 k -- true", exitUsage, "is no descriptor"},
		{"elect --observe e -- true", exitUsage, "--observe runs nothing"},
		{"elect e f -- true", exitUsage, "stands behind the election"},
		{"elect e --ttl 5s -- true", exitUsage, `"--ttl" stands behind the election`},
		{"elect e -- no-such-program", 127, "no-such-program"},
		{"elect --on-elected no-such-hook e", 127, "no-such-hook"},
		{"elect --listen 127.0.0.1:none e", exitConfig, "--listen"},
		{"elect --name= e", exitUsage, "--name"},
		{"left", exitUsage, `left is for what "quorumlock run" runs`},
	} {
		args := word.FindAllString(tt.args, -1)
		for i := range args {
			args[i] = strings.Trim(args[i], `"`)
		}
		verb := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "QUORUMLOCK_") })
		got := run(t, append(args[:verb:verb], "QUORUMLOCK_NODES=redis://127.0.0.1:1"), args[verb:]...)
		if got.code != tt.code || !strings.Contains(got.talk, tt.says) || got.out != "" || strings.Contains(got.talk, "secret") {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want code %d, and on stderr alone %q, without a password", tt.args, got.code, got.out, got.talk, tt.code, tt.says)
		}
	}
}
