package drivertest

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const noAuth = "NOAUTH Authentication required."

// execute carries out one command and returns the encoded reply.
func (s *server) execute(c *conn, args []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.ToUpper(args[0])
	if s.guarded {
		if name == "AUTH" {
			return failure("WRONGPASS invalid username-password pair or user is disabled.")
		}
		return failure(noAuth)
	}
	run, known := commands[name]
	if !known {
		return failure("ERR unknown command '" + args[0] + "'")
	}
	if len(args)-1 < run.least {
		return failure("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	}
	if c.listening() && !slices.Contains(whileSubscribed, name) {
		return misplaced(name)
	}
	return run.do(s, c, args[1:])
}

// commands is what the server knows: what clients send when they connect, and what
// the suite needs. least counts the arguments without the name.
var commands = map[string]struct {
	least int
	do    func(s *server, c *conn, args []string) string
}{
	"HELLO":     {0, hello},
	"AUTH":      {1, ok},
	"SELECT":    {1, ok},
	"READONLY":  {0, ok},
	"READWRITE": {0, ok},
	"CLIENT":    {1, client},
	"COMMAND":   {0, func(*server, *conn, []string) string { return array() }},
	"PING":      {0, ping},
	"ECHO":      {1, func(_ *server, _ *conn, args []string) string { return bulk(args[0]) }},
	"INFO":      {0, info},
	"ROLE":      {0, func(*server, *conn, []string) string { return array(bulk("master"), integer(0), array()) }},
	"WAIT":      {2, func(*server, *conn, []string) string { return integer(0) }},
	"SET":       {2, set},
	"GET":       {1, get},
	"DEL":       {1, del},
	"PTTL":      {1, pttl},
	"PEXPIRE":   {2, pexpire},
	"EVALSHA":   {2, func(*server, *conn, []string) string { return failure(noScript) }},
	"EVAL":      {2, eval},
	"PUBLISH":   {2, publish},
	"SUBSCRIBE": {1, subscribe},

	"UNSUBSCRIBE":  {0, unsubscribe},
	"PUNSUBSCRIBE": {0, punsubscribe},
	"SUNSUBSCRIBE": {0, sunsubscribe},
}

const noScript = "NOSCRIPT No matching script. Please use EVAL."

func ok(*server, *conn, []string) string { return simple("OK") }

func hello(_ *server, c *conn, args []string) string {
	if len(args) > 0 {
		proto, err := strconv.Atoi(args[0])
		if err != nil || proto < 2 || proto > 3 {
			return failure("NOPROTO unsupported protocol version")
		}
		c.proto = proto
	}
	return table(
		c.proto,
		bulk("server"), bulk("redis"),
		bulk("version"), bulk("7.2.0"),
		bulk("proto"), integer(int64(c.proto)),
		bulk("id"), integer(int64(c.id)),
		bulk("mode"), bulk("standalone"),
		bulk("role"), bulk("master"),
		bulk("modules"), array(),
	)
}

func client(_ *server, c *conn, args []string) string {
	switch strings.ToUpper(args[0]) {
	case "ID":
		return integer(int64(c.id))
	case "SETNAME", "SETINFO", "TRACKING", "CACHING", "NO-EVICT", "NO-TOUCH":
		return simple("OK")
	}
	return failure("ERR unknown subcommand '" + args[0] + "'. Try CLIENT HELP.")
}

func info(_ *server, c *conn, _ []string) string {
	const text = "# Server\r\nredis_version:7.2.0\r\nredis_mode:standalone\r\n# Replication\r\nrole:master\r\n"
	if c.proto == 3 {
		return "=" + strconv.Itoa(len(text)+4) + "\r\ntxt:" + text + "\r\n"
	}
	return bulk(text)
}

// live returns the value of a key that has not expired.
func (s *server) live(key string) (value, bool) {
	v, found := s.values[key]
	if found && !v.expires.IsZero() && !time.Now().Before(v.expires) {
		delete(s.values, key)
		return value{}, false
	}
	return v, found
}

func set(s *server, c *conn, args []string) string {
	key, next := args[0], value{data: args[1]}
	var onlyNew, onlyOld, wantOld bool
	for i := 2; i < len(args); i++ {
		switch option := strings.ToUpper(args[i]); {
		case option == "NX":
			onlyNew = true
		case option == "XX":
			onlyOld = true
		case option == "GET":
			wantOld = true
		case option == "PX" && i+1 < len(args):
			i++
			ms, err := strconv.ParseInt(args[i], 10, 64)
			if err != nil || ms <= 0 {
				return failure("ERR invalid expire time in 'set' command")
			}
			next.expires = time.Now().Add(time.Duration(ms) * time.Millisecond)
		default:
			return failure("ERR syntax error")
		}
	}
	old, found := s.live(key)
	done := (!onlyNew || !found) && (!onlyOld || found)
	if done {
		s.values[key] = next
	}
	switch {
	case wantOld && found:
		return bulk(old.data)
	case wantOld || !done:
		return null(c.proto)
	}
	return simple("OK")
}

func get(s *server, c *conn, args []string) string {
	v, found := s.live(args[0])
	if !found {
		return null(c.proto)
	}
	return bulk(v.data)
}

func del(s *server, _ *conn, args []string) string {
	var n int64
	for _, key := range args {
		if _, found := s.live(key); found {
			delete(s.values, key)
			n++
		}
	}
	return integer(n)
}

func pttl(s *server, _ *conn, args []string) string {
	v, found := s.live(args[0])
	switch {
	case !found:
		return integer(-2)
	case v.expires.IsZero():
		return integer(-1)
	}
	return integer(time.Until(v.expires).Milliseconds())
}

func pexpire(s *server, _ *conn, args []string) string {
	ms, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return failure("ERR value is not an integer or out of range")
	}
	v, found := s.live(args[0])
	if !found {
		return integer(0)
	}
	v.expires = time.Now().Add(time.Duration(ms) * time.Millisecond)
	s.values[args[0]] = v
	return integer(1)
}

// eval knows no Lua: a script's text is the name of one of the canned replies, or
// else an error reply.
func eval(_ *server, c *conn, args []string) string {
	if canned := cannedNamed(args[0]); canned.name != "" {
		return canned.encode(c.proto)
	}
	return failure(args[0])
}
