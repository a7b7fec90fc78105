package drivertest

import (
	"slices"
	"strconv"
	"strings"
)

// push encodes what is no reply: RESP3 has a type of its own for it.
func push(proto int, elems ...string) string {
	if proto == 3 {
		return ">" + strconv.Itoa(len(elems)) + "\r\n" + strings.Join(elems, "")
	}
	return array(elems...)
}

const (
	noPerm = "NOPERM this user has no permissions to access one of the channels used as arguments"
	// forbidden is the prefix of the channels that no client may subscribe to.
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

// unsubscribe without channels applies to all.
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

// punsubscribe and sunsubscribe are for clients that send them before they leave. The server
// has neither patterns nor shards' channels. Patterns are counted together with channels.
func punsubscribe(_ *server, c *conn, _ []string) string {
	return push(c.proto, bulk("punsubscribe"), null(c.proto), integer(int64(len(c.channels))))
}

func sunsubscribe(_ *server, c *conn, _ []string) string {
	return push(c.proto, bulk("sunsubscribe"), null(c.proto), integer(0))
}

// publish sends on goroutines of their own, so that it does not wait for a subscriber that
// does not read.
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

// ping is answered like a message to a subscriber of RESP2, which expects no replies.
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
var whileSubscribed = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "PING"}

func misplaced(name string) string {
	return failure("ERR Can't execute '" + strings.ToLower(name) + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
}

// subscribers counts the connections that subscribe to the channel.
func (s *server) subscribers(channel string) int {
	n := 0
	for c := range s.conns {
		if _, listens := c.channels[channel]; listens {
			n++
		}
	}
	return n
}

// awaitSubscribers waits until n connections subscribe to the channel, and reports whether
// that happened in time.
func (s *server) awaitSubscribers(channel string, n int) bool {
	return s.awaitThat(func() bool { return s.subscribers(channel) == n })
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
