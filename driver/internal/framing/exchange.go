// Package framing cuts what a client and a server say into commands and replies, and
// tells where a reply breaks the rules of the protocol.
package framing

// Exchange is what was said on one connection so far. It is not safe for concurrent use.
type Exchange struct {
	owed    ledger
	in, out Scanner
}

// NewExchange returns the exchange of a new connection.
func NewExchange() *Exchange {
	e := &Exchange{}
	e.in = Scanner{maxString: maxString, onBegin: e.owed.expects, onEnd: e.owed.answered}
	e.out = Scanner{maxString: maxArgument, onBegin: func(byte) error { return nil }, onEnd: e.owed.asked}
	return e
}

// maxArgument is far above what a server takes: what is written is the client's own.
const maxArgument = 1 << 40

// Sent takes in what the client writes.
func (e *Exchange) Sent(p []byte) error {
	_, err := e.out.scan(p)
	return err
}

// Received takes in what the server has said. It returns how many of the bytes are right,
// and with fewer than all, what is wrong with the next.
func (e *Exchange) Received(p []byte) (int, error) { return e.in.scan(p) }

// Idle reports whether every command is whole and has its reply.
func (e *Exchange) Idle() bool { return e.owed.settled() && e.out.between() }

// Listening reports whether the server may speak first: there was a SUBSCRIBE in RESP2.
func (e *Exchange) Listening() bool { return e.owed.listening }
