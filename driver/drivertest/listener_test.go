package drivertest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// listener is a simple subscription that keeps the contract.
type listener struct {
	conn net.Conn
	hear func(driver.Notice)

	turn    chan struct{} // whoever has put a value in may write
	closing chan struct{}
	once    sync.Once
	reader  sync.WaitGroup
}

func (p *pool) Subscribe(ctx context.Context, hear func(driver.Notice)) (driver.Subscription, error) {
	l, err := p.listen(ctx, hear)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p *pool) listen(ctx context.Context, hear func(driver.Notice)) (*listener, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	l := &listener{conn: conn, hear: hear, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	l.reader.Go(l.read)
	return l, nil
}

func (l *listener) Add(ctx context.Context, channels ...string) error {
	return l.ask(ctx, "SUBSCRIBE", channels)
}

func (l *listener) Remove(ctx context.Context, channels ...string) error {
	return l.ask(ctx, "UNSUBSCRIBE", channels)
}

func (l *listener) ask(ctx context.Context, name string, channels []string) error {
	var cmds []driver.Command
	for _, channel := range channels {
		cmds = append(cmds, keyless(name, channel))
	}
	return l.send(ctx, cmds...)
}

func (l *listener) send(ctx context.Context, cmds ...driver.Command) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		_ = l.conn.Close()
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	err := write(l.conn, cmds)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = l.conn.Close()
	}
	return err
}

func (l *listener) read() {
	in := bufio.NewReader(l.conn)
	for {
		reply, err := readReply(in)
		if err == nil {
			err = l.tell(reply)
		}
		if err == nil {
			continue
		}
		_ = l.conn.Close()
		select {
		case <-l.closing:
		default:
			l.hear(driver.Notice{Kind: driver.Ended, Err: err})
		}
		return
	}
}

func (l *listener) tell(reply driver.Reply) error {
	if reply.Kind == driver.Failure {
		l.hear(driver.Notice{Kind: driver.Refused, Err: reply.Err()})
		return nil
	}
	if len(reply.Elems) != 3 {
		return errors.New("not what a subscriber is told")
	}
	switch channel := reply.Elems[1].Str; reply.Elems[0].Str {
	case "subscribe":
		l.hear(driver.Notice{Kind: driver.Confirmed, Channel: channel})
	case "message":
		l.hear(driver.Notice{Kind: driver.Message, Channel: channel, Payload: reply.Elems[2].Str})
	}
	return nil
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closing) })
	_ = l.conn.SetDeadline(time.Now()) // ends what waits
	_ = l.conn.Close()
	l.reader.Wait()
	return nil
}
