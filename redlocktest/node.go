package redlocktest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Node is one server. All its methods may be called from any goroutine, whatever
// state the node is in.
type Node struct {
	listens bool

	life sync.Mutex     // one Start or Stop at a time; commands and accessors go on meanwhile
	port io.Closer      // keeps addr's port while the node is stopped; nil: listens is false, or Close was called
	work sync.WaitGroup // what carries the connections from outside

	delay atomic.Int64 // by which answers are late, in nanoseconds

	// sessions holds the peers that are clients' connections, and not the ones
	// that miniredis makes up for the commands of a script.
	sessions sync.Map // *server.Peer to *session

	// mu also makes commands run one at a time, as in Redis, so that what a
	// method changes holds from its return on.
	mu       sync.Mutex
	addr     string
	engine   *miniredis.Miniredis
	listener net.Listener          // nil where listens is false
	sockets  map[net.Conn]struct{} // connections from outside
	down     chan struct{}         // nil: stopped; closed by Stop
	hung     chan struct{}         // nil: serving; closed by Resume
	refusals map[string]string     // error replies by command
	counts   map[string]int        // commands by name
	infos    map[string]string     // what SetInfo said
	runID    string
	replID   string
}

// Addr returns the address, "127.0.0.1:34567". It stays the same for the node's
// life. In a bubble it is a name, "node1:6379", that only [Node.Dial] can reach.
func (n *Node) Addr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// Start starts a node that was stopped, at its old address, with the keys and the
// scripts it had; their leases went on meanwhile. Its run_id and master_replid are
// new, as after every start of a Redis. A node that runs is left alone. The error
// is that somebody has taken the port, which Linux keeps for the node until
// [Nodes.Close].
func (n *Node) Start() error {
	n.life.Lock()
	defer n.life.Unlock()
	return n.start(false)
}

// RestartEmpty stops the node and puts an empty one in its place, as when a machine
// comes back without its disk. The error is that of [Node.Start].
func (n *Node) RestartEmpty() error {
	n.life.Lock()
	defer n.life.Unlock()
	n.stop()
	return n.start(true)
}

// Stop ends the node as a crash does: connections break, new ones are refused, and
// nothing is executed any more once Stop has returned. A hung node forgets what it
// was sent. A node that is stopped is left alone.
func (n *Node) Stop() {
	n.life.Lock()
	defer n.life.Unlock()
	n.stop()
}

// close stops the node, and frees its port.
func (n *Node) close() {
	n.life.Lock()
	defer n.life.Unlock()
	n.stop()
	if n.port != nil {
		_ = n.port.Close() // is being thrown away
		n.port = nil
	}
}

func (n *Node) start(empty bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil {
		return nil
	}
	if n.listens {
		if n.addr == "" {
			addr, port, err := reserve()
			if err != nil {
				return fmt.Errorf("redlocktest: start node: %w", err)
			}
			n.addr, n.port = addr, port
		}
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", n.addr)
		if err != nil {
			return fmt.Errorf("redlocktest: start node: %w", err)
		}
		n.listener, n.addr = listener, listener.Addr().String()
		n.sockets = map[net.Conn]struct{}{}
		n.work.Go(func() { n.accept(listener) })
	}
	if empty {
		n.engine = newEngine(n.hook)
	}
	n.runID, n.replID = newID(), newID()
	n.down = make(chan struct{})
	return nil
}

// newEngine makes a miniredis that has no listener and whose clock runs.
func newEngine(hook server.Hook) *miniredis.Miniredis {
	engine := miniredis.NewMiniRedis()
	engine.ClockTTL(true)
	// The first Dial is what makes the server. From here on neither Close nor
	// Restart of miniredis is used: they swap the server under running commands.
	conn, err := engine.Dial()
	if err != nil {
		panic("redlocktest: miniredis refuses a connection in memory: " + err.Error())
	}
	_ = conn.Close() // in memory
	engine.Server().SetPreHook(hook)
	return engine
}

func (n *Node) stop() {
	n.mu.Lock()
	if n.down == nil {
		n.mu.Unlock()
		return
	}
	close(n.down)
	n.down, n.hung = nil, nil
	engine, listener, sockets := n.engine, n.listener, slices.Collect(maps.Keys(n.sockets))
	n.mu.Unlock()

	engine.Server().Close() // cuts the connections and waits for them
	if listener != nil {
		shut(listener)
		_ = listener.Close() // is being thrown away
	}
	for _, socket := range sockets {
		_ = socket.Close() // is being thrown away
	}
	n.work.Wait()
}

// Dial connects to the node in memory, with or without a listener. It is what a
// client needs in a testing/synctest bubble, as its dialer. The clients also need
// some settings there:
//
//   - go-redis: Options.Dialer, and maintenance notifications disabled.
//   - redigo: Pool.DialContext with redis.NewConn(conn, 0, 0) around it.
//   - rueidis: ClientOption.DialCtxFn, and DisableCache.
//
// The error is ECONNREFUSED where the node is stopped. A hung node accepts.
func (n *Node) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	client, err := n.dial()
	if err != nil {
		return nil, err
	}
	return client, nil
}

// dial is called with mu held, so that no connection begins while stop ends them.
func (n *Node) dial() (*end, error) {
	if n.down == nil {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr(n.addr), Err: syscall.ECONNREFUSED}
	}
	client, node := newPipe(pipeAddr(n.addr), func() time.Duration { return time.Duration(n.delay.Load()) })
	n.engine.Server().ServeConn(node)
	return client, nil
}

// The methods here look into database 0 past the protocol: they count no command,
// and work while the node hangs or is stopped.

// Get returns the string at key, and whether there is one.
func (n *Node) Get(key string) (value string, found bool) {
	value, err := n.data().Get(key)
	return value, err == nil
}

// Keys returns all keys, of any type, sorted.
func (n *Node) Keys() []string {
	keys := n.data().Keys()
	slices.Sort(keys)
	return keys
}

// TTL returns how long the key has to live, and 0 where it has no end or is not
// there.
func (n *Node) TTL(key string) time.Duration {
	return n.data().TTL(key)
}

// Set puts a string at key in place of whatever is there, as somebody else would.
// Without an end where ttl is 0.
func (n *Node) Set(key, value string, ttl time.Duration) {
	data := n.data()
	data.Del(key)
	_ = data.Set(key, value) // fails on a key of another type only
	if ttl > 0 {
		data.SetTTL(key, ttl)
	}
}

// Take lets somebody else hold the key for so long, or for ever with a time of at most 0.
func (n *Node) Take(key string, ttl time.Duration) { n.Set(key, "somebody else", ttl) }

// Del takes the key away, as an eviction does.
func (n *Node) Del(key string) {
	n.data().Del(key)
}

// FastForward takes d off all leases, as if that time had passed at this node alone.
// Its TIME stays.
func (n *Node) FastForward(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.engine.FastForward(d)
}

// data lets the commands that are being executed end first.
func (n *Node) data() *miniredis.RedisDB {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.engine.DB(0)
}
