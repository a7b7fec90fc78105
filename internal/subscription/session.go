package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A session is a subscription of a subscriber.
type session struct {
	subscriber *Subscriber
	open       driver.Subscription
	asked      map[string]bool // the channels, and whether they are confirmed; guarded by subscriber.mu
	over       chan error      // the session has failed, or is refused
}

// Why a node is polled.
var (
	ErrForbidden = errors.New("waiters poll this node, for its user may not subscribe or publish: allow " + acl.WakeUps.String())
	errEnded     = errors.New("waiters poll this node, for the subscription to it has failed")
)

// listen keeps a subscription until it fails, or until nobody waits: then it returns nil.
func (sub *Subscriber) listen() error {
	s := &session{subscriber: sub, asked: make(map[string]bool), over: make(chan error, 1)}
	sub.mu.Lock()
	sub.changes = sub.changes[:0] // or they would add up while the node is down
	sub.mu.Unlock()
	ctx, cancel := context.WithTimeout(sub.Life, sub.Connect)
	open, err := sub.Driver.Subscribe(ctx, s.onNotice)
	cancel()
	if err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	s.open = open
	defer s.close()
	if err := s.begin(); err != nil {
		return err
	}
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		select {
		case <-sub.changed:
			if err := s.follow(); err != nil {
				return err
			}
			idle.Reset(linger)
		case err := <-s.over:
			return err
		case <-idle.C:
			if sub.ends(false) {
				return nil
			}
			idle.Reset(linger)
		case <-sub.Life.Done():
			return fault.ErrClosed
		}
	}
}

// begin asks for all wanted channels, and for the channel by whose listeners nodes see that anybody waits.
func (s *session) begin() error {
	sub := s.subscriber
	sub.mu.Lock()
	sub.changes = sub.changes[:0]
	channels := []string{protocol.WakeChannel}
	for channel := range sub.wanted {
		channels = append(channels, channel)
	}
	for _, channel := range channels {
		s.asked[channel] = false
	}
	sub.mu.Unlock()
	return s.do(s.open.Add, channels)
}

// follow asks for newly wanted channels, and gives up unwanted ones. No channel is given up before its
// confirmation: the confirmation would not say which request it belongs to.
func (s *session) follow() error {
	sub := s.subscriber
	var adds, removes []string
	sub.mu.Lock()
	for _, channel := range sub.changes {
		wanted := sub.wanted[channel]
		confirmed, asked := s.asked[channel]
		switch {
		case wanted != nil && !asked:
			s.asked[channel] = false
			adds = append(adds, channel)
		case wanted != nil && confirmed: // another waiter is subscribed already
			for _, l := range wanted {
				l.OnSubscribed(sub.Node, true)
			}
		case wanted == nil && confirmed:
			delete(s.asked, channel)
			removes = append(removes, channel)
		}
	}
	sub.changes = sub.changes[:0]
	sub.mu.Unlock()
	if err := s.do(s.open.Remove, removes); err != nil {
		return err
	}
	return s.do(s.open.Add, adds)
}

// do sends requests for channels, within a node's time-out.
func (s *session) do(send func(context.Context, ...string) error, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.subscriber.Life, s.subscriber.Timeout)
	defer cancel()
	if err := send(ctx, channels...); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return nil
}

// onNotice hands a notice to its listeners.
func (s *session) onNotice(notice driver.Notice) {
	sub := s.subscriber
	sub.mu.Lock()
	defer sub.mu.Unlock()
	wanted := sub.wanted[notice.Channel]
	switch notice.Kind {
	case driver.Confirmed:
		sub.told, sub.fails = false, false
		if _, asked := s.asked[notice.Channel]; !asked {
			return
		}
		s.asked[notice.Channel] = true
		for _, l := range wanted {
			l.OnSubscribed(sub.Node, true)
		}
		if wanted == nil && notice.Channel != protocol.WakeChannel {
			sub.change(notice.Channel) // nobody wants the channel any more
		}
	case driver.Message:
		for _, l := range wanted {
			l.OnMessage(sub.Node, notice.Payload)
		}
	case driver.Refused:
		s.fail(fmt.Errorf("%w: %w", ErrForbidden, notice.Err))
	case driver.Ended:
		s.fail(fmt.Errorf("%w: %w", errEnded, notice.Err))
	}
}

func (s *session) fail(err error) {
	select {
	case s.over <- err:
	default:
	}
}

// close ends the subscription: no announcement arrives any more.
func (s *session) close() {
	_ = s.open.Close() // over, whatever Close returns
	sub := s.subscriber
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for _, wanted := range sub.wanted {
		for _, l := range wanted {
			l.OnSubscribed(sub.Node, false)
		}
	}
}
