package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A hearing is one subscription of an ear.
type hearing struct {
	ear   *ear
	open  driver.Subscription
	asked map[string]bool // the channels, and whether they are confirmed; guarded by ear.mu
	over  chan error      // it has failed, or is refused
}

var (
	errForbidden = errors.New("waiters poll this node, for its user may not subscribe or publish: allow +publish +subscribe +unsubscribe +pubsub +ping +echo &ql:free:*")
	errEnded     = errors.New("waiters poll this node, for the subscription to it has failed")
)

// listen keeps one subscription until it fails, or nobody waits: then it returns nil.
func (e *ear) listen() error {
	l := e.node.locker
	h := &hearing{ear: e, asked: make(map[string]bool), over: make(chan error, 1)}
	e.mu.Lock()
	e.changes = e.changes[:0] // or they would add up while the node is down
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.life, firstContact*l.timeout)
	open, err := e.subscriber.Subscribe(ctx, h.hear)
	cancel()
	if err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	h.open = open
	defer h.close()
	if err := h.begin(); err != nil {
		return err
	}
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		select {
		case <-e.changed:
			if err := h.follow(); err != nil {
				return err
			}
			idle.Reset(linger)
		case err := <-h.over:
			return err
		case <-idle.C:
			if e.ends(false) {
				return nil
			}
			idle.Reset(linger)
		case <-l.life.Done():
			return ErrClosed
		}
	}
}

// begin asks for all that is wanted, and for the channel by whose listeners nodes see
// that anybody waits.
func (h *hearing) begin() error {
	e := h.ear
	e.mu.Lock()
	e.changes = e.changes[:0]
	channels := []string{wakeChannel}
	for channel := range e.wanted {
		channels = append(channels, channel)
	}
	for _, channel := range channels {
		h.asked[channel] = false
	}
	e.mu.Unlock()
	return h.do(h.open.Add, channels)
}

// follow asks for what is wanted by now, and gives up what is not. A channel is not given
// up before it is confirmed: a confirmation would not say which asking it belongs to.
func (h *hearing) follow() error {
	e := h.ear
	var adds, removes []string
	e.mu.Lock()
	for _, channel := range e.changes {
		v := e.wanted[channel]
		confirmed, asked := h.asked[channel]
		switch {
		case v != nil && !asked:
			h.asked[channel] = false
			adds = append(adds, channel)
		case v != nil && confirmed: // another waits for what is heard already
			v.confirmed(e.node.index, true)
		case v == nil && confirmed:
			delete(h.asked, channel)
			removes = append(removes, channel)
		}
	}
	e.changes = e.changes[:0]
	e.mu.Unlock()
	if err := h.do(h.open.Remove, removes); err != nil {
		return err
	}
	return h.do(h.open.Add, adds)
}

// do sends what is asked for or given up, within a node's time-out.
func (h *hearing) do(send func(context.Context, ...string) error, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	l := h.ear.node.locker
	ctx, cancel := context.WithTimeout(l.life, l.timeout)
	defer cancel()
	if err := send(ctx, channels...); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return nil
}

// hear takes a notice to whom it concerns.
func (h *hearing) hear(notice driver.Notice) {
	e := h.ear
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.wanted[notice.Channel]
	switch notice.Kind {
	case driver.Confirmed:
		e.told = false
		if _, asked := h.asked[notice.Channel]; !asked {
			return
		}
		h.asked[notice.Channel] = true
		if v != nil {
			v.confirmed(e.node.index, true)
		} else if notice.Channel != wakeChannel {
			e.change(notice.Channel) // nobody wants it any more
		}
	case driver.Message:
		if v != nil {
			v.announced(e.node.index)
		}
	case driver.Refused:
		h.fail(fmt.Errorf("%w: %w", errForbidden, notice.Err))
	case driver.Ended:
		h.fail(fmt.Errorf("%w: %w", errEnded, notice.Err))
	}
}

func (h *hearing) fail(err error) {
	select {
	case h.over <- err:
	default:
	}
}

// close ends the subscription: nothing is heard any more.
func (h *hearing) close() {
	_ = h.open.Close() // whatever it says, it is over
	e := h.ear
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.wanted {
		v.confirmed(e.node.index, false)
	}
}
