package redlocktest

import (
	"bufio"
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Count returns how many times clients have had the command executed or refused
// here: "SET", "evalsha". What waits at a hung node does not count yet, and what a
// script calls does not count at all.
func (n *Node) Count(command string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts[strings.ToUpper(command)]
}

// Counts returns the counts of all commands by name, in upper case.
func (n *Node) Counts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.counts)
}

// session is one client's connection.
type session struct {
	executing bool // the command that arrives now comes from execute
}

// hook sees every command before miniredis does, and executes it itself, so that a
// command is one step under mu and no fault begins in its midst. Miniredis calls the
// hook again for that, and for each command of a script; mu is held then.
func (n *Node) hook(c *server.Peer, name string, args ...string) bool {
	s := n.session(c)
	if s == nil || s.executing {
		return n.intercept(c, name, args)
	}
	if !n.enter() {
		c.Close() // the node was stopped: this command gets no reply
		return true
	}
	defer n.mu.Unlock()
	if n.counts == nil {
		n.counts = map[string]int{}
	}
	n.counts[name]++
	s.executing = true
	n.execute(c, append([]string{name}, args...))
	s.executing = false
	c.Flush()
	return true
}

// session returns the connection of c, and nil where c is a script. A script's peer
// has a context from its birth, and a connection has none before its first command.
func (n *Node) session(c *server.Peer) *session {
	if s, known := n.sessions.Load(c); known {
		return s.(*session)
	}
	if c.Ctx != nil {
		return nil
	}
	s := &session{}
	n.sessions.Store(c, s)
	c.OnDisconnect(func() { n.sessions.Delete(c) })
	return s
}

// enter waits while the node hangs, and returns with mu held, or false where the
// node was stopped.
func (n *Node) enter() bool {
	for {
		n.mu.Lock()
		down, hung := n.down, n.hung
		if down != nil && hung == nil {
			return true
		}
		n.mu.Unlock()
		if down == nil {
			return false
		}
		select {
		case <-hung:
		case <-down:
			return false
		}
	}
}

// intercept answers what miniredis does not, or should not.
func (n *Node) intercept(c *server.Peer, name string, args []string) bool {
	if message := n.refusal(name); message != "" {
		c.WriteError(message)
		return true
	}
	switch name {
	case "INFO":
		c.WriteBulk(n.infoText(args))
	case "ROLE":
		n.writeRole(c)
	case "CLUSTER": // miniredis would be a Cluster of one, and a rueidis client believes it
		c.WriteError("ERR This instance has cluster support disabled")
	default:
		return false
	}
	return true
}

// blocking commands would keep mu, and with it the node, for as long as they wait.
var blocking = []string{"BLMOVE", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN", "XREAD", "XREADGROUP"}

func (n *Node) execute(c *server.Peer, command []string) {
	switch name := command[0]; {
	case slices.Contains(blocking, name):
		c.WriteError("ERR " + name + " is not served by an embedded node")
	case strings.HasPrefix(name, "EVAL"):
		n.executeScript(c, command)
	default:
		n.engine.Server().Dispatch(c, command)
	}
}

// scriptError is what miniredis makes of an error that a command of a script raises.
var scriptError = regexp.MustCompile(`^-ERR Error compiling script \(new function\): [^ :]*:\d+: ([A-Z]+ .*?)( stack traceback:.*)?\r\n$`)

// executeScript keeps the code word of an error that ends a script (READONLY,
// WRONGTYPE) in the first place, where Redis has it.
func (n *Node) executeScript(c *server.Peer, command []string) {
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	peer.Ctx, peer.Resp3 = c.Ctx, c.Resp3
	n.sessions.Store(peer, &session{executing: true})
	n.engine.Server().Dispatch(peer, command)
	n.sessions.Delete(peer)
	peer.Flush()
	c.Ctx = peer.Ctx // the connection's first command makes it
	c.WriteRaw(scriptError.ReplaceAllString(reply.String(), "-$1\r\n"))
}
