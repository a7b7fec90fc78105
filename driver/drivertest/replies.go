package drivertest

import (
	"strconv"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

var replyCases = []testCase{
	{"a reply of every kind arrives as it is", everyKind},
	{"keys and values may hold any bytes", anyBytes},
	{"an error reply is a reply and is not repeated", errorReplies},
	{"an error reply in the middle of a batch spoils nothing", errorInBatch},
}

func everyKind(tr *trial) {
	for _, c := range cannedReplies {
		tr.expect(tr.do(canned(c.name, "kind")), c.want)
	}
	// The same in one batch, where a wrong length of one reply shifts the others.
	var cmds []driver.Command
	var want []driver.Reply
	for _, c := range cannedReplies {
		cmds = append(cmds, canned(c.name, "kind"))
		want = append(want, c.want)
	}
	tr.expect(tr.do(cmds...), want...)

	if info := tr.do(keyless("INFO", "server")).replies[0]; info.Kind != driver.String || !strings.HasPrefix(info.Str, "# Server\r\n") {
		tr.Errorf("the reply to INFO = %s, want a string that begins with %q", show(info), "# Server\r\n")
	}
}

// byteStrings are keys and values that a careless client spoils.
var byteStrings = []string{
	allBytes,
	strings.Repeat(allBytes, 300),
	"line\r\nend",
	"\r\n",
	"\x00",
	"\xff\xfe not UTF-8",
	"*1\r\n$4\r\nPING\r\n",
	"{tag}:ключ",
	"%s %d \\ \"",
	"",
}

func anyBytes(tr *trial) {
	for i, s := range byteStrings {
		key := "key " + s
		out := tr.do(keyed("SET", key, s, "NX"), keyed("GET", key), keyless("ECHO", s), keyed("DEL", key))
		tr.expect(out, text("OK"), text(s), text(s), number(1))
		if n := tr.server.Count(key); n != 3 {
			tr.Errorf("string %d: %d of 3 commands reached the server with the key %s as it is", i+1, n, quote(key))
		}
	}
	tr.expect(tr.do(keyed("SET", "", "an empty key"), keyed("GET", "")), text("OK"), text("an empty key"))
}

// errorLines are error replies that clients are known to treat in ways of their own.
var errorLines = []string{
	"ERR something went wrong",
	"READONLY You can't write against a read only replica.",
	"LOADING Redis is loading the dataset in memory",
	"WRONGTYPE Operation against a key holding the wrong kind of value",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"NOREPLICAS Not enough good replicas to write.",
	"NOPERM this user has no permissions to run the 'eval' command",
	"NOAUTH Authentication required.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"CLUSTERDOWN The cluster is down",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"NOSCRIPT No matching script. Please use EVAL.",
	"max number of clients reached",
}

func errorReplies(tr *trial) {
	for i, line := range errorLines {
		key := "refused " + strconv.Itoa(i)
		tr.expect(tr.do(canned(line, key)), refusal(line))
		tr.sentOnce(key)
	}
	tr.expect(tr.do(command(3, 1, "EVALSHA", strings.Repeat("0", 40), "1", "script")), refusal(scripted.NoScript))
	tr.sentOnce("script")
}

func errorInBatch(tr *trial) {
	for i, line := range errorLines {
		first, refused, last := "first "+strconv.Itoa(i), "refused "+strconv.Itoa(i), "last "+strconv.Itoa(i)
		out := tr.do(keyed("SET", first, "1"), canned(line, refused), keyed("SET", last, "2"), keyed("GET", last))
		tr.expect(out, text("OK"), refusal(line), text("OK"), text("2"))
		tr.sentOnce(refused)
		if n := tr.server.Count(last); n != 2 {
			tr.Errorf("after the error reply %q the server received %d commands of the batch, want 2", line, n)
		}
	}
	var cmds []driver.Command
	var want []driver.Reply
	for i, line := range errorLines {
		cmds = append(cmds, canned(line, "one of many "+strconv.Itoa(i)))
		want = append(want, refusal(line))
	}
	tr.expect(tr.do(cmds...), want...)
	for i := range errorLines {
		tr.sentOnce("one of many " + strconv.Itoa(i))
	}
}
