package rueidis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
)

// unsubscribing is how long the server may take to answer an UNSUBSCRIBE: less than
// the 5s (busy-reply-threshold) after which a server that runs a script says BUSY.
const unsubscribeTimeout = time.Second

// session is the connection of a subscription.
type session struct {
	wire     rueidis.DedicatedClient
	gone     <-chan error // receives why the connection is gone, and is closed
	notifier *notifier
}

// newSession takes a connection out of the client's pool, as newLink does, and passes its
// messages to notifier. Over RESP2 rueidis opens another connection for messages.
func newSession(ctx context.Context, client rueidis.Client, notifier *notifier) (*session, error) {
	wire, _ := client.Dedicate()
	l := &session{wire: wire, notifier: notifier}
	err := ping(ctx, wire).NonRedisError()
	if err == nil {
		l.gone = wire.SetPubSubHooks(rueidis.PubSubHooks{
			OnSubscription: func(s rueidis.PubSubSubscription) {
				if s.Kind == "subscribe" {
					notifier.notify(driver.Notice{Kind: driver.Confirmed, Channel: s.Channel})
				}
			},
			OnMessage: func(m rueidis.PubSubMessage) {
				notifier.notify(driver.Notice{Kind: driver.Message, Channel: m.Channel, Payload: m.Message})
			},
		})
		select {
		case err = <-l.gone:
			err = lost(err)
		default:
		}
	}
	if err != nil {
		l.cut()
		return nil, refusal(err)
	}
	return l, nil
}

// subscribe sends SUBSCRIBE for channels, notifies of refusals, and returns when the server
// has answered for all. Channels that are added meanwhile go out next, all together.
func (l *session) subscribe(ctx context.Context, channels []string) error {
	batch := make([]rueidis.Completed, len(channels))
	for i, channel := range channels {
		batch[i] = l.wire.B().Subscribe().Channel(channel).Build()
	}
	for _, result := range l.wire.DoMulti(once{ctx}, batch...) { //nolint:contextcheck // it is ctx
		if err := result.NonRedisError(); err != nil {
			return err
		}
		if err := failure(result); err != nil {
			l.notifier.notify(driver.Notice{Kind: driver.Refused, Err: err})
		}
	}
	return nil
}

// unsubscribe sends UNSUBSCRIBE, or fails where that is not safe. rueidis sends a PING
// behind an UNSUBSCRIBE, and then it panics, on a goroutine of its own, over
//   - BUSY for both. So the server has to answer a PING right before, and the rest
//     before it could say BUSY.
//   - an error for the PING alone (MISCONF) with any reply but PONG behind it. So over
//     RESP3 an ECHO says PONG; over RESP2, where rueidis does not take both together,
//     the PING before has to do.
func (l *session) unsubscribe(ctx context.Context, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	if err := failure(ping(ctx, l.wire)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, unsubscribeTimeout)
	defer cancel()
	unsubscribe := l.wire.B().Unsubscribe().Channel(channels...).Build()
	echo := l.wire.B().Arbitrary("ECHO", "PONG").Build()
	results := l.wire.DoMulti(once{ctx}, unsubscribe, echo) //nolint:contextcheck // it is ctx
	if errors.Is(results[0].NonRedisError(), rueidis.ErrRESP2PubSubMixed) {
		results = l.wire.DoMulti(once{ctx}, unsubscribe) //nolint:contextcheck // it is ctx
	}
	return failure(results[0])
}

// cut closes the connection at once. A Close alone first waits for the server to answer
// a PING, for a second; another one at the same time does not, and closes the socket. (On
// a Cluster it waits for the first.)
func (l *session) cut() {
	var closing sync.WaitGroup
	for range 2 {
		closing.Go(l.wire.Close)
	}
	closing.Wait()
}

// once is a context in which rueidis does not try again, as it would with a SUBSCRIBE:
// there is no time for it.
type once struct {
	context.Context //nolint:containedctx // it is a context
}

// Deadline is in the past. rueidis asks for it only before it tries again.
func (once) Deadline() (time.Time, bool) {
	return time.Time{}, true
}

// failure returns what is wrong with a result: a [*driver.ServerError] where it is an
// error reply.
func failure(result rueidis.RedisResult) error {
	if err := result.NonRedisError(); err != nil || result.Error() == nil {
		return err
	}
	message, _ := result.ToMessage()
	return toReply(&message).Err()
}

// lost returns why a connection is gone. rueidis does not always give a reason.
func lost(err error) error {
	if err == nil {
		return errors.New("the connection is gone")
	}
	return err
}
