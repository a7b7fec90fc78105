package goredis

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
)

// keepCommands is the largest batch whose commands are kept for the next one.
const keepCommands = 4096

// wire is one connection and the go-redis client that uses it alone. One to one, a cancel can
// end a read: go-redis does not expose which connection of a pool a call is on.
type wire struct {
	socket   net.Conn
	client   *redis.Client
	conn     *redis.Conn
	pipe     redis.Pipeliner
	commands []redis.Cmder // each a *command
	keep     bool          // hooks may hold on to commands: then none is used twice
	born     time.Time
	age      context.Context //nolint:containedctx // see [server]: once it has ended, the wire is not used again

	over func() // [server.over], for AfterFunc

	// All belong to the server's mutex.
	ctx   context.Context //nolint:containedctx // of the batch that is out; nil: the wire is idle
	since time.Time       // it has been idle since then
	cut   bool            // see [server.cut]
}

// connect dials and shakes hands (HELLO, AUTH, SELECT, OnConnect, a PING to see the
// end of it) within ctx.
func connect(ctx context.Context, options *redis.Options, hooks []redis.Hook) (_ *wire, err error) {
	var socket net.Conn
	defer func() {
		if err != nil && socket != nil {
			_ = socket.Close() // go-redis may not have taken it
		}
	}()
	defer driver.CatchPanic(&err)
	dial := redis.DialHook(options.Dialer)
	for _, hook := range slices.Backward(hooks) {
		if wrapped := hook.DialHook(dial); wrapped != nil {
			dial = wrapped
		}
	}
	if socket, err = dial(ctx, options.Network, options.Addr); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { cut(socket) })
	defer stop()

	checked := driver.CheckReplies(socket).Strictly()
	own := *options
	own.Dialer = func(context.Context, string, string) (net.Conn, error) { return checked, nil }
	w := &wire{socket: checked, client: redis.NewClient(&own), keep: len(hooks) == 0, born: time.Now()}
	for _, hook := range hooks {
		w.client.AddHook(dialed{hook})
	}
	w.conn = w.client.Conn()
	w.pipe = w.conn.Pipeline()

	greeting, err := w.send(ctx, []driver.Command{{Args: []any{"PING"}}})
	if err == nil && strings.HasPrefix(greeting[0].Str, "NOAUTH") {
		err = driver.Refusal(greeting[0].Str)
	}
	if err == nil && !stop() {
		err = ctx.Err() // and the socket is cut
	}
	if err != nil {
		w.close()
		return nil, refusal(err)
	}
	return w, nil
}

// dialed is a hook that has seen the dial already.
type dialed struct{ redis.Hook }

func (dialed) DialHook(next redis.DialHook) redis.DialHook { return next }

// send sends the batch. With an error come the replies that had arrived.
func (w *wire) send(ctx context.Context, cmds []driver.Command) (replies []driver.Reply, err error) {
	defer driver.CatchPanic(&err) // of a hook
	for len(w.commands) < len(cmds) {
		w.commands = append(w.commands, newCommand()) //nolint:contextcheck // it outlives the batch
	}
	batch := w.commands[:len(cmds)]
	for i, cmd := range cmds {
		batch[i].(*command).load(cmd)
	}

	if len(batch) == 1 {
		err = w.conn.Process(ctx, batch[0])
	} else {
		_ = w.pipe.BatchProcess(ctx, batch...)
		_, err = w.pipe.Exec(ctx)
	}

	replies, missing := w.collect(batch)
	if !w.keep || len(w.commands) > keepCommands {
		w.commands = nil
	}
	if missing == nil {
		return replies, nil
	}
	if err == nil { // a hook has kept it to itself
		err = missing
	}
	return replies, err
}

// collect takes the replies that have arrived, up to the first that is missing or
// not whole. It does not ask the commands for their error: when a connection
// breaks, go-redis marks those as failed, too, whose reply had arrived.
func (w *wire) collect(batch []redis.Cmder) (replies []driver.Reply, missing error) {
	replies = make([]driver.Reply, 0, len(batch))
	for _, cmder := range batch {
		cmd := cmder.(*command)
		if missing == nil {
			var reply driver.Reply
			if reply, _, missing = resp.Decode(cmd.raw); missing == nil {
				replies = append(replies, reply)
			}
		}
		cmd.unload()
	}
	return replies, missing
}

// cut ends what is being read or written, for good: go-redis drops the connection.
func cut(socket net.Conn) { _ = socket.SetDeadline(time.Unix(1, 0)) }

// close closes the client and its connection.
func (w *wire) close() {
	_ = w.conn.Close()
	_ = w.client.Close()
}

// refusal turns an error reply to the handshake into a [driver.ServerError].
func refusal(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return driver.Refusal(reply.Error())
	}
	return err
}
