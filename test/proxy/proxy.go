// Package proxy puts a bad network between a client and a server: delays, cuts,
// resets, replies that end in the middle.
package proxy

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/test/redisserver"
)

// A Direction is one way through a proxy, or both.
type Direction int

// The directions. Together they are Both.
const (
	Requests Direction = 1 << iota // from the client to the server
	Replies                        // from the server to the client
	Both     = Requests | Replies
)

// Proxy forwards the connections that it accepts to one server. All methods are safe
// for concurrent use. What they change holds for the connections that are open and
// for those to come.
type Proxy struct {
	addr    string
	running sync.WaitGroup

	mu       sync.Mutex
	target   string
	listener net.Listener // nil while it refuses
	links    map[*link]struct{}
	delay    time.Duration
	jitter   time.Duration
	gates    map[Direction]chan struct{} // of each single direction; closed while it is open
	truncate int                         // what the next reply may still have, or -1
	pending  *interruption               // or nil
	opened   int                         // connections so far
	closed   bool

	observers map[*func(commands [][]string)]struct{}
}

// New starts a proxy to the server at target, on a free port of loopback.
func New(target string) (*Proxy, error) {
	open := make(chan struct{})
	close(open)
	p := &Proxy{
		target:   target,
		links:    map[*link]struct{}{},
		gates:    map[Direction]chan struct{}{Requests: open, Replies: open},
		truncate: -1,

		observers: map[*func(commands [][]string)]struct{}{},
	}
	port, err := redisserver.FreePort()
	if err != nil {
		return nil, err
	}
	p.addr = fmt.Sprintf("127.0.0.1:%d", port)
	return p, p.Accept()
}

// Addr is where clients reach it. It stays the same for life.
func (p *Proxy) Addr() string { return p.addr }

// Delay makes everything take d longer, each way; a PING takes twice d longer. Order is
// kept, and what is under way at the same time is delayed at the same time. Go's
// timers are coarse: take 2ms or more, or 0 for none, which is the default. Opening a
// connection is not delayed.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Jitter makes everything take up to d longer than Delay says, each time another while.
// Order is kept: what is slow holds up what comes behind it.
func (p *Proxy) Jitter(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jitter = d
}

// Cut lets nothing through in direction, neither bytes nor a close, until Mend. Nobody
// is told, as when a cable is pulled: clients see silence. New connections are
// accepted.
func (p *Proxy) Cut(direction Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for way, gate := range p.gates {
		if direction&way != 0 && passable(gate) {
			p.gates[way] = make(chan struct{})
		}
	}
}

// Mend ends all cuts. What was held up arrives now, as TCP's retransmission has it:
// to lose it, call Reset first.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, gate := range p.gates {
		if !passable(gate) {
			close(gate)
		}
	}
}

// Reset ends all open connections with a reset on both sides; what was held up or on
// its way is lost.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Move forwards to another server from now on, as when a replica takes over an address.
// What is connected to the one before is reset.
func (p *Proxy) Move(target string) {
	p.Repoint(target)
	p.Reset()
}

// Repoint forwards what connects from now on to another server. What is connected stays at the one
// before, as behind a load balancer or a name.
func (p *Proxy) Repoint(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Opened is how many connections it has forwarded so far.
func (p *Proxy) Opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// Truncate lets n bytes of the next reply through and then closes that connection.
// The server has run the command; the client has a part of its answer. If no reply has
// come, -1 takes it back.
func (p *Proxy) Truncate(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.truncate = n
}

// Refuse resets all connections and refuses new ones until Accept.
func (p *Proxy) Refuse() error {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	var err error
	if listener != nil {
		err = listener.Close()
	}
	p.Reset()
	return err
}

// Accept ends Refuse.
func (p *Proxy) Accept() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.closed {
		return nil
	}
	listener, err := net.Listen("tcp", p.addr) //nolint:noctx // returns at once
	if err != nil {
		return err
	}
	p.listener = listener
	p.running.Go(func() { p.serve(listener) })
	return nil
}

// Close ends all connections and the proxy, and waits for its goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.Refuse()
	p.running.Wait()
	return err
}

func (p *Proxy) serve(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // closed by Refuse
		}
		p.running.Go(func() { p.connect(client.(*net.TCPConn), listener) })
	}
}

// connect forwards one connection until it ends. A server that is not there resets it.
func (p *Proxy) connect(client *net.TCPConn, accepted net.Listener) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	upstream, err := net.Dial("tcp", target) //nolint:noctx // loopback
	if err != nil {
		abort(client)
		return
	}
	l := &link{proxy: p, client: client, server: upstream.(*net.TCPConn), ended: make(chan struct{}), rest: -1}
	p.mu.Lock()
	p.opened++
	p.links[l] = struct{}{}
	if p.listener != accepted || p.target != target { // Refuse or Move has been here, and did not see this link
		l.reset()
	}
	p.mu.Unlock()

	l.forward()

	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// gate returns a channel that is closed as soon as way is open.
func (p *Proxy) gate(way Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gates[way]
}

func (p *Proxy) due(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.delay
	if p.jitter > 0 {
		late += rand.N(p.jitter) //nolint:gosec // a delay is no secret
	}
	return now.Add(late)
}

// takeTruncate returns what the reply that comes now may have, or -1: one reply only.
func (p *Proxy) takeTruncate() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.truncate
	p.truncate = -1
	return n
}

func passable(gate <-chan struct{}) bool {
	select {
	case <-gate:
		return true
	default:
		return false
	}
}
