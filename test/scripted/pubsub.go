package scripted

import (
	"slices"
	"strings"
)

// Forbidden is the prefix of the channels that no client may subscribe to.
const Forbidden = "forbidden"

// subscribe refuses a command as a whole where one of its channels is Forbidden.
func subscribe(s *Server, c *Conn, args []string) string {
	if slices.ContainsFunc(args, func(channel string) bool { return strings.HasPrefix(channel, Forbidden) }) {
		return Failure(NoPerm)
	}
	var reply strings.Builder
	for _, channel := range args {
		c.channels[channel] = struct{}{}
		reply.WriteString(push(c.proto, Bulk("subscribe"), Bulk(channel), Integer(int64(len(c.channels)))))
	}
	c.queue(reply.String()) // while mu is held: no message may overtake it
	s.changed.Broadcast()
	return ""
}

// unsubscribe without channels applies to all.
func unsubscribe(s *Server, c *Conn, args []string) string {
	if len(args) == 0 {
		for channel := range c.channels {
			args = append(args, channel)
		}
		if len(args) == 0 {
			return push(c.proto, Bulk("unsubscribe"), null(c.proto), Integer(0))
		}
	}
	var reply strings.Builder
	for _, channel := range args {
		delete(c.channels, channel)
		reply.WriteString(push(c.proto, Bulk("unsubscribe"), Bulk(channel), Integer(int64(len(c.channels)))))
	}
	c.queue(reply.String()) // while mu is held: no message may overtake it
	s.changed.Broadcast()
	return ""
}

// punsubscribe and sunsubscribe are for clients that send them before they leave. The server
// has neither patterns nor shards' channels. Patterns are counted together with channels.
func punsubscribe(_ *Server, c *Conn, _ []string) string {
	return push(c.proto, Bulk("punsubscribe"), null(c.proto), Integer(int64(len(c.channels))))
}

func sunsubscribe(_ *Server, c *Conn, _ []string) string {
	return push(c.proto, Bulk("sunsubscribe"), null(c.proto), Integer(0))
}

// publish sends on goroutines of their own, so that it does not wait for a subscriber that
// does not read.
func publish(s *Server, _ *Conn, args []string) string {
	all := s.subscribers(args[0])
	for _, c := range all {
		c.queue(push(c.proto, Bulk("message"), Bulk(args[0]), Bulk(args[1])))
		s.done.Go(func() { _ = c.flush() }) // fails when the client has gone
	}
	return Integer(int64(len(all)))
}

// Publish publishes a message, as who sends PUBLISH does.
func (s *Server) Publish(channel, payload string) {
	s.Locked(func() { publish(s, nil, []string{channel, payload}) })
}

// ping is answered like a message to a subscriber of RESP2, which expects no replies.
func ping(_ *Server, c *Conn, args []string) string {
	words := strings.Join(args, " ")
	switch {
	case c.listening():
		return Array(Bulk("pong"), Bulk(words))
	case words == "":
		return Simple("PONG")
	}
	return Bulk(words)
}

// listening reports whether the connection takes no commands but those of a
// subscriber.
func (c *Conn) listening() bool { return c.proto == 2 && len(c.channels) > 0 }

// whileSubscribed are the commands that such a connection takes, as far as the server
// knows them.
var whileSubscribed = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "PING"}

// Subscribers counts the connections that subscribe to the channel.
func (s *Server) Subscribers(channel string) (n int) {
	s.Locked(func() { n = len(s.subscribers(channel)) })
	return n
}

// Subscriber returns a connection that subscribes to the channel, or nil.
func (s *Server) Subscriber(channel string) (c *Conn) {
	s.Locked(func() {
		if all := s.subscribers(channel); len(all) > 0 {
			c = all[0]
		}
	})
	return c
}

func (s *Server) subscribers(channel string) (all []*Conn) {
	for c := range s.conns {
		if _, listens := c.channels[channel]; listens {
			all = append(all, c)
		}
	}
	return all
}
