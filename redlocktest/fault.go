package redlocktest

import (
	"slices"
	"strings"
	"time"
)

// Hang makes the node like a server under SIGSTOP: it accepts connections and sends
// nothing. What it is sent meanwhile is executed on [Node.Resume], in order for each
// connection and in any order between them, also when its client has long hung up.
// A node that is stopped is left alone.
func (n *Node) Hang() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil && n.hung == nil {
		n.hung = make(chan struct{})
	}
}

// Resume ends [Node.Hang].
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hung != nil {
		close(n.hung)
		n.hung = nil
	}
}

// SlowDown makes every answer late by d, like a node that is far away: a command is
// executed at once, and a batch costs d once. 0 ends it. What is on its way keeps
// its delay.
func (n *Node) SlowDown(d time.Duration) {
	n.delay.Store(int64(max(d, 0)))
}

// Every stands for every command in [Node.Fail].
const Every = "*"

// Fail makes commands answer the error message and do nothing, in scripts too:
//
//	node.Fail("READONLY You can't write against a read only replica.")
//	node.Fail("NOPERM this user has no permissions to run the 'evalsha' command", "EVALSHA", "EVAL")
//	node.Fail("LOADING Redis is loading the dataset in memory", redlocktest.Every)
//
// Without commands it stands for all that write. A script as such does not write,
// so that one which finds nothing to do answers, as on a replica. [Every] leaves out
// what a client needs to connect (AUTH, HELLO, CLIENT, SELECT, QUIT), and INFO. Of
// two calls for one command the later counts, and a command that was named counts
// before a group. An empty message ends it for these commands.
func (n *Node) Fail(message string, commands ...string) {
	if len(commands) == 0 {
		commands = []string{writes}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refusals == nil {
		n.refusals = map[string]string{}
	}
	for _, command := range commands {
		n.refusals[strings.ToUpper(command)] = message
	}
}

// Heal ends what [Node.Hang], [Node.SlowDown] and [Node.Fail] began. A node that is
// stopped stays so.
func (n *Node) Heal() {
	n.mu.Lock()
	n.refusals = nil
	n.mu.Unlock()
	n.SlowDown(0)
	n.Resume()
}

// writes stands for all commands that write. No command can have that name.
const writes = ""

var (
	connecting = []string{"AUTH", "CLIENT", "HELLO", "INFO", "QUIT", "SELECT"}

	// neutral commands are not marked as reading in miniredis and do not write.
	neutral = append([]string{
		"CLUSTER", "COMMAND", "DISCARD", "ECHO", "EVAL", "EVALSHA", "EXEC", "MEMORY", "MULTI", "OBJECT",
		"PING", "PSUBSCRIBE", "PUBLISH", "PUBSUB", "PUNSUBSCRIBE", "ROLE", "SCRIPT", "SUBSCRIBE", "TIME",
		"UNSUBSCRIBE", "UNWATCH", "WAIT", "WATCH", "XINFO",
	}, connecting...)
)

// refusal returns the error that the command gets, or "". It is called with mu held.
func (n *Node) refusal(command string) string {
	if message, named := n.refusals[command]; named {
		return message
	}
	if message := n.refusals[writes]; message != "" && n.isWrite(command) {
		return message
	}
	if !slices.Contains(connecting, command) {
		return n.refusals[Every]
	}
	return ""
}

func (n *Node) isWrite(command string) bool {
	srv := n.engine.Server()
	return srv.IsRegisteredCommand(command) && !srv.IsReadOnlyCommand(command) && !slices.Contains(neutral, command)
}
