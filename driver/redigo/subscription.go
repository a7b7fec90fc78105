package redigo

import (
	"sync/atomic"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// subscriber is a connection for a subscription. It is broken before it is closed: the pool's
// Close of a connection that subscribes would otherwise wait for the server.
type subscriber struct {
	*conn
	d       *adapter
	session *resp.Session
	broken  atomic.Bool
}

func (s *subscriber) Send(cmds []driver.Command) error { return s.send(cmds) }

func (s *subscriber) Receive() (driver.Reply, error) {
	reply, err := s.receive()
	if err != nil && !s.broken.Load() {
		s.d.suspect()
	}
	return reply, err
}

func (s *subscriber) Cut() {
	s.broken.Store(true)
	s.snap()
}

func (s *subscriber) Release() {
	_ = s.Close()
	s.d.forget(s)
	<-s.d.seats
}
