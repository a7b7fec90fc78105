package scripted

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// What the server says where it refuses.
const (
	NoAuth   = "NOAUTH Authentication required."
	NoScript = "NOSCRIPT No matching script. Please use EVAL."
	NoPerm   = "NOPERM this user has no permissions to access one of the channels used as arguments"
)

// execute carries out one command and returns the encoded reply.
func (s *Server) execute(c *Conn, args []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Instead != nil {
		if reply, ok := s.Instead(c.proto, args); ok {
			return reply
		}
	}
	name := strings.ToUpper(args[0])
	if s.guarded {
		if name == "AUTH" {
			return Failure("WRONGPASS invalid username-password pair or user is disabled.")
		}
		return Failure(NoAuth)
	}
	run, known := commands[name]
	if !known {
		return Failure("ERR unknown command '" + args[0] + "'")
	}
	if len(args)-1 < run.least {
		return Failure("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	}
	if c.listening() && !slices.Contains(whileSubscribed, name) {
		return Failure("ERR Can't execute '" + strings.ToLower(name) + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
	return run.do(s, c, args[1:])
}

// commands is what the server knows: what clients send when they connect, and what
// tests need. least counts the arguments without the name.
var commands = map[string]struct {
	least int
	do    func(s *Server, c *Conn, args []string) string
}{
	"HELLO":     {0, hello},
	"AUTH":      {1, always(Simple("OK"))},
	"SELECT":    {1, always(Simple("OK"))},
	"READONLY":  {0, always(Simple("OK"))},
	"READWRITE": {0, always(Simple("OK"))},
	"CLIENT":    {1, client},
	"CLUSTER":   {1, cluster},
	"COMMAND":   {0, always(Array())},
	"PING":      {0, ping},
	"ECHO":      {1, func(_ *Server, _ *Conn, args []string) string { return Bulk(args[0]) }},
	"INFO":      {0, info},
	"ROLE":      {0, always(Array(Bulk("master"), Integer(0), Array()))},
	"WAIT":      {2, always(Integer(0))},
	"SET":       {2, set},
	"GET":       {1, get},
	"DEL":       {1, del},
	"EVALSHA":   {2, always(Failure(NoScript))},
	"PUBLISH":   {2, publish},
	"SUBSCRIBE": {1, subscribe},

	"UNSUBSCRIBE":  {0, unsubscribe},
	"PUNSUBSCRIBE": {0, punsubscribe},
	"SUNSUBSCRIBE": {0, sunsubscribe},
}

func always(reply string) func(*Server, *Conn, []string) string {
	return func(*Server, *Conn, []string) string { return reply }
}

func hello(_ *Server, c *Conn, args []string) string {
	if len(args) > 0 {
		proto, err := strconv.Atoi(args[0])
		if err != nil || proto < 2 || proto > 3 {
			return Failure("NOPROTO unsupported protocol version")
		}
		c.proto = proto
	}
	if i := slices.Index(args, "SETNAME"); i >= 0 && i+1 < len(args) {
		c.name = args[i+1]
	}
	return Table(
		c.proto,
		Bulk("server"), Bulk("redis"),
		Bulk("version"), Bulk("7.2.0"),
		Bulk("proto"), Integer(int64(c.proto)),
		Bulk("id"), Integer(int64(c.id)),
		Bulk("mode"), Bulk("standalone"),
		Bulk("role"), Bulk("master"),
		Bulk("modules"), Array(),
	)
}

func client(_ *Server, c *Conn, args []string) string {
	switch strings.ToUpper(args[0]) {
	case "ID":
		return Integer(int64(c.id))
	case "SETNAME":
		c.name = args[len(args)-1]
		return Simple("OK")
	case "SETINFO", "TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH":
		return Simple("OK")
	}
	return Failure("ERR unknown subcommand '" + args[0] + "'. Try CLIENT HELP.")
}

// Cluster is the name by which a client asks for a Redis Cluster, whose only master the server is.
const Cluster = "cluster"

func cluster(s *Server, c *Conn, args []string) string {
	if c.name != Cluster || strings.ToUpper(args[0]) != "SLOTS" {
		return Failure("ERR This instance has cluster support disabled")
	}
	host, port, _ := net.SplitHostPort(s.Addr())
	number, _ := strconv.ParseInt(port, 10, 64)
	return Array(Array(Integer(0), Integer(16383), Array(Bulk(host), Integer(number), Bulk("the only one"))))
}

func info(_ *Server, c *Conn, _ []string) string {
	const text = "# Server\r\nredis_version:7.2.0\r\nredis_mode:standalone\r\n# Replication\r\nrole:master\r\n"
	if c.proto == 3 {
		return "=" + strconv.Itoa(len(text)+4) + "\r\ntxt:" + text + "\r\n"
	}
	return Bulk(text)
}

// set knows no expiry: no key lives for as long as a test.
func set(s *Server, c *Conn, args []string) string {
	options := strings.ToUpper(strings.Join(args[2:], " "))
	old, found := s.values[args[0]]
	done := !found || !strings.Contains(options, "NX")
	if done {
		s.values[args[0]] = args[1]
	}
	switch wantsOld := strings.Contains(options, "GET"); {
	case wantsOld && found:
		return Bulk(old)
	case wantsOld || !done:
		return null(c.proto)
	}
	return Simple("OK")
}

func get(s *Server, c *Conn, args []string) string {
	if value, found := s.values[args[0]]; found {
		return Bulk(value)
	}
	return null(c.proto)
}

func del(s *Server, _ *Conn, args []string) string {
	before := len(s.values)
	for _, key := range args {
		delete(s.values, key)
	}
	return Integer(int64(before - len(s.values)))
}
