// Package framing cuts a connection's two streams into commands and replies, and finds the
// first byte that breaks the rules of the protocol.
package framing

// Exchange is the state of one connection. It is not safe for concurrent use.
type Exchange struct {
	commands pending
	in, out  Scanner
}

// NewExchange returns the exchange of a new connection.
func NewExchange() *Exchange {
	e := &Exchange{}
	e.in = Scanner{maxString: maxString, onBegin: e.commands.onReplyBegin, onEnd: e.commands.onReply}
	e.out = Scanner{maxString: maxArgument, onBegin: func(byte) error { return nil }, onEnd: e.commands.onCommand}
	return e
}

// maxArgument is above what any server takes: the client's own commands are not bounded.
const maxArgument = 1 << 40

// Sent scans what the client writes.
func (e *Exchange) Sent(p []byte) error {
	_, err := e.out.scan(p)
	return err
}

// Received scans what the server has sent. It returns how many of the bytes are right, and
// with fewer than all, what is wrong with the next.
func (e *Exchange) Received(p []byte) (int, error) { return e.in.scan(p) }

// Idle reports whether every command is whole and has its reply.
func (e *Exchange) Idle() bool { return e.commands.empty() && e.out.between() }

// Subscribed reports whether the server may send messages: there was a SUBSCRIBE in RESP2.
func (e *Exchange) Subscribed() bool { return e.commands.subscribed }
