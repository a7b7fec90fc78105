package inspect

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/internal/protocol"
)

// A wake is what became of one announcement of a release.
type wake struct {
	err  error         // why it did not arrive
	took time.Duration // from PUBLISH on
}

var (
	errNoSubscriber = errors.New("the driver has no subscriptions")
	errLate         = errors.New("it did not arrive in time")
)

// listen subscribes to a channel of its own and publishes there.
func (t *target) listen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.wake.took, t.wake.err = t.announce(ctx)
}

func (t *target) announce(ctx context.Context) (took time.Duration, err error) {
	subscriber, ok := t.Driver.(driver.Subscriber)
	if !ok {
		return 0, errNoSubscriber
	}
	channel := protocol.WakeChannel + t.trial.scratch
	notices := make(chan driver.Notice, 4) // of one channel there are no more
	sub, err := subscriber.Subscribe(ctx, func(n driver.Notice) {
		select {
		case notices <- n:
		default:
		}
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Close() }()
	if err := sub.Add(ctx, channel); err != nil {
		return 0, err
	}
	if err := await(ctx, notices, driver.Confirmed, patience); err != nil {
		return 0, err
	}
	sent := t.exam.clock.Now()
	replies, err := t.ask(ctx, patience, command("PUBLISH", channel, ""))
	if err != nil {
		return 0, err
	}
	if err := replies[0].Err(); err != nil {
		return 0, err
	}
	err = await(ctx, notices, driver.Message, moment)
	return t.exam.clock.Fresh().Sub(sent), err
}

// await waits for a notice of a kind.
func await(ctx context.Context, notices <-chan driver.Notice, kind driver.NoticeKind, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		select {
		case n := <-notices:
			switch n.Kind {
			case kind:
				return nil
			case driver.Refused, driver.Ended:
				return n.Err
			}
		case <-ctx.Done():
			return errLate
		}
	}
}

// leastBuffer is what a listener's buffer should hold: some thousand announcements.
const leastBuffer = 1 << 20

// checkWakeUps says whether waiters at other processes are woken by the node.
func (t *target) checkWakeUps() {
	if err := t.wake.err; err != nil {
		const why = "waiters poll the node, which costs both more"
		var reply *driver.ServerError
		if errors.As(err, &reply) && reply.Code == "NOPERM" {
			lacks := t.rights.missing[acl.WakeUps]
			if lacks == nil { // nobody knows what else
				lacks = wanted(reply.Error(), t.exam.Prefix, acl.WakeUps)
			}
			t.find("wake-ups", Warning, Seen{"error": err.Error()}, why, t.allow(t.typed(lacks, "&")...))
			t.because(lacks...)
		} else {
			t.find("wake-ups", Warning, Seen{"error": err.Error()}, why, "# see why: subscriptions need a connection of their own")
		}
	}
	limits, reply, ok := t.config("client-output-buffer-limit")
	if !ok {
		t.cannotTell("wake-ups", "whether slow listeners are cut", "config|get", reply)
		return
	}
	words := strings.Fields(limits)
	for i := 0; i+2 < len(words); i++ {
		if hard, err := strconv.ParseInt(words[i+1], 10, 64); words[i] == "pubsub" && err == nil && hard > 0 && hard < leastBuffer {
			t.find("wake-ups", Warning, Seen{"client-output-buffer-limit_pubsub": hard}, "a listener that is slow for a moment is cut, and polls until it is back",
				t.redis("config", "set", "client-output-buffer-limit", "pubsub 33554432 8388608 60"), alsoInFile)
		}
	}
}
