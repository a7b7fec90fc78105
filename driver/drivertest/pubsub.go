package drivertest

import (
	"slices"
	"strconv"
	"strings"
)

// push is what a server says of itself: to a client of RESP3 it is told apart from
// replies.
func push(proto int, elems ...string) string {
	if proto == 3 {
		return ">" + strconv.Itoa(len(elems)) + "\r\n" + strings.Join(elems, "")
	}
	return array(elems...)
}

const (
	noPerm = "NOPERM this user has no permissions to access one of the channels used as arguments"
	// forbidden begins the channels that nobody may hear.
	forbidden = "forbidden"
)

// subscribe refuses a command as a whole where one of its channels is forbidden.
func subscribe(s *server, c *conn, args []string) string {
	if slices.ContainsFunc(args, func(channel string) bool { return strings.HasPrefix(channel, forbidden) }) {
		return failure(noPerm)
	}
	var reply strings.Builder
	for _, channel := range args {
		c.channels[channel] = struct{}{}
		reply.WriteString(push(c.proto, bulk("subscribe"), bulk(channel), integer(int64(len(c.channels)))))
	}
	c.queue(reply.String()) // while mu is held: no message may overtake it
	s.changed.Broadcast()
	return ""
}

// unsubscribe gives up all channels where none is named.
func unsubscribe(s *server, c *conn, args []string) string {
	if len(args) == 0 {
		for channel := range c.channels {
			args = append(args, channel)
		}
		if len(args) == 0 {
			return push(c.proto, bulk("unsubscribe"), null(c.proto), integer(0))
		}
	}
	var reply strings.Builder
	for _, channel := range args {
		delete(c.channels, channel)
		reply.WriteString(push(c.proto, bulk("unsubscribe"), bulk(channel), integer(int64(len(c.channels)))))
	}
	c.queue(reply.String()) // while mu is held: no message may overtake it
	s.changed.Broadcast()
	return ""
}

// punsubscribe and sunsubscribe answer those who give up what this server does not
// have, patterns and shards' channels, as some clients do before they leave. Patterns
// are counted together with channels.
func punsubscribe(_ *server, c *conn, _ []string) string {
	return push(c.proto, bulk("punsubscribe"), null(c.proto), integer(int64(len(c.channels))))
}

func sunsubscribe(_ *server, c *conn, _ []string) string {
	return push(c.proto, bulk("sunsubscribe"), null(c.proto), integer(0))
}

// publish sends from goroutines of their own, so that nobody waits for a subscriber
// that does not read.
func publish(s *server, _ *conn, args []string) string {
	var n int64
	for c := range s.conns {
		if _, listens := c.channels[args[0]]; listens {
			n++
			c.queue(push(c.proto, bulk("message"), bulk(args[0]), bulk(args[1])))
			s.done.Go(func() { _ = c.flush() }) // fails when the client has gone
		}
	}
	return integer(n)
}

// ping is told as a message to a subscriber of RESP2, which expects no replies.
func ping(_ *server, c *conn, args []string) string {
	words := strings.Join(args, " ")
	switch {
	case c.listening():
		return array(bulk("pong"), bulk(words))
	case words == "":
		return simple("PONG")
	}
	return bulk(words)
}

// listening reports whether the connection takes no commands but those of a
// subscriber.
func (c *conn) listening() bool { return c.proto == 2 && len(c.channels) > 0 }

// whileListening are the commands that such a connection takes, as far as the server
// knows them.
var whileListening = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "PING"}

func misplaced(name string) string {
	return failure("ERR Can't execute '" + strings.ToLower(name) + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
}

// listeners counts the connections that hear of the channel.
func (s *server) listeners(channel string) int {
	n := 0
	for c := range s.conns {
		if _, listens := c.channels[channel]; listens {
			n++
		}
	}
	return n
}

// awaitListeners waits until so many connections hear of the channel, and reports
// whether that happened in time.
func (s *server) awaitListeners(channel string, n int) bool {
	return s.awaitThat(func() bool { return s.listeners(channel) == n })
}

// awaitConns waits until at most so many connections are open.
func (s *server) awaitConns(n int) bool {
	return s.awaitThat(func() bool { return len(s.conns) <= n })
}

// locked looks at the server while nothing changes there.
func (s *server) locked(look func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look()
}

// openConns counts the connections that are open now.
func (s *server) openConns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
