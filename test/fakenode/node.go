// Package fakenode is a server with the commands of the lock, and the network in front of it, in
// memory: for tests in virtual time (testing/synctest) of what asks a [driver.Driver]. It knows the
// scripts of internal/scripts by their contracts, and runs no Lua.
//
// The network delays, cuts, loses and withholds what goes over it. The server is silent, restarts
// empty, has a clock that is ahead or a user who may not do everything, is another server than before,
// or gives any answer that a test makes up. A [Durable] has a disk and replicas besides, which take
// their time.
//
// All methods may be called at the same time, but for those that are for within [Node.Change]: they
// say so.
package fakenode

import (
	"context"
	"crypto/sha1" //nolint:gosec // a master_replid is as long
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
)

// A Node is a server, and the way to it. Make one by [New], and give it to a [driver.Node]: it is a
// [driver.Driver], [driver.Subscriber] and [driver.Renewer].
//
// Its fields are read and written within [Node.Change], within Answer, Lose and Hold, which the node
// calls with its mutex held, or while nothing is under way.
type Node struct {
	// The faults that it plays.
	Delay      time.Duration                     // of a round trip
	Jitter     time.Duration                     // up to so much is added to the delay
	Refused    error                             // what Do and Subscribe return
	Cuts       int                               // so many calls fail before anything arrives
	Answer     func(args []any) *driver.Reply    // is asked before a command is run; not nil: the reply, instead of running it
	Lose       func(name string) bool            // whether the reply to a command that was run is lost: see [CommandName]
	Hold       func(name string) <-chan struct{} // a batch with such a command is answered only when that is closed; nil: at once
	Block      chan struct{}                     // Do ignores its context until that is closed
	Buffer     []func()                          // what has reached a server that is hung, for Resume
	Mute       bool                              // the user may neither subscribe nor publish
	Deaf       bool                              // what is published gets lost
	Scriptless bool                              // the user may not run scripts
	Skew       time.Duration                     // its clock is so far ahead

	// What the server is, and has.
	Kind     Kind
	Info     string // what INFO says
	Keys     map[string]Key
	Fences   map[string]map[string]int64     // by the name of the set: numbers by their members
	Readers  map[string]map[string]time.Time // by the name of the set: tokens by their expiry
	Waits    map[string]map[string]Key       // by the name of the hash: fields by what they say
	Lines    map[string]map[string]Ticket    // by the name of the line: tickets
	Memories map[string]Memory               // by the name of the record
	Loaded   map[string]bool                 // the digests of the scripts that it knows

	// What has arrived.
	Log        []string  // the names of the commands that were run: see [CommandName]
	Ran        io.Writer // gets each command that is run, and when; nil: nobody does
	Calls      int       // of Do
	Published  []string  // the channels, in order
	Subscribed int       // calls of Subscribe

	name    string
	mu      sync.Mutex
	hung    chan struct{} // closed when it wakes; nil: not hung
	ears    map[*Subscription]bool
	starts  int
	instead *Node // the server that the way leads to; nil: this one
	next    *Node // the same for connections that are made anew; nil: no change
	renewed int
}

// A Key is what a server keeps under a name, or a field of a hash: whose it is, and until when.
type Key struct {
	Token string // or [List]
	Until time.Time
}

// List is what a key holds that is no string.
const List = "a list"

// New returns a node that is well, empty and near.
func New(name string) *Node {
	return &Node{
		name: name,
		Keys: map[string]Key{}, Loaded: map[string]bool{}, Fences: map[string]map[string]int64{}, Readers: map[string]map[string]time.Time{},
		Waits: map[string]map[string]Key{}, Memories: map[string]Memory{},
		Info: Info(name),
	}
}

// Name is its name, which its INFO shows as its run_id.
func (f *Node) Name() string { return f.name }

// Info is what a server of that name says of itself.
func Info(name string) string {
	return "run_id:" + name + "\r\nmaster_replid:" + History(name) + "\r\nrole:master\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
}

// History is the master_replid of a server of that name.
func History(name string) string {
	digest := sha1.Sum([]byte(name)) //nolint:gosec // it has the right length
	return hex.EncodeToString(digest[:])
}

// ErrCut is what a connection fails with that is cut.
var ErrCut = errors.New("connection reset by peer")

// Do makes a Node a [driver.Driver].
func (f *Node) Do(ctx context.Context, cmds []driver.Command) ([]driver.Reply, error) {
	f.mu.Lock()
	f.Calls++
	delay, hung, block, refused := f.Delay, f.hung, f.Block, f.Refused
	var jitter time.Duration
	if f.Jitter > 0 {
		jitter = rand.N(f.Jitter) //nolint:gosec // a network is no secret
	}
	cut := f.Cuts > 0
	if ctx.Err() == nil && refused == nil {
		f.Cuts--
	}
	f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ctx.Err(), driver.ErrNotSent)
	case refused != nil:
		return nil, refused
	case cut:
		return nil, ErrCut
	}
	if block != nil {
		<-block
	}
	if hung != nil {
		f.mu.Lock()
		f.Buffer = append(f.Buffer, func() { f.Run(cmds) })
		f.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if delay+jitter > 0 && !Sleep(ctx, delay/2+jitter) {
		return nil, ctx.Err()
	}
	f.mu.Lock()
	if to := f.instead; to != nil {
		f.mu.Unlock()
		to.mu.Lock()
		replies, _ := to.Run(cmds)
		to.mu.Unlock()
		return replies, nil
	}
	replies, lost := f.Run(cmds)
	var wait <-chan struct{}
	for _, cmd := range cmds {
		if f.Hold != nil && wait == nil {
			wait = f.Hold(CommandName(cmd.Args))
		}
	}
	f.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if lost {
		return replies, ErrCut
	}
	if delay > 0 && !Sleep(ctx, delay/2) {
		return nil, ctx.Err()
	}
	return replies, nil
}

// Sleep waits for so long, and reports whether the context still goes on then.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 { // a timer that is due at once crashes Go 1.26's race detector in a bubble
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Run runs the commands in order, up to the first whose reply is lost. For within [Node.Change].
func (f *Node) Run(cmds []driver.Command) (replies []driver.Reply, lost bool) {
	for _, cmd := range cmds {
		name := CommandName(cmd.Args)
		f.Log = append(f.Log, name)
		if f.Ran != nil {
			_, _ = fmt.Fprintln(f.Ran, time.Now().UnixNano(), f.name, cmd.Args)
		}
		if f.Answer != nil {
			if reply := f.Answer(cmd.Args); reply != nil {
				replies = append(replies, *reply)
				continue
			}
		}
		reply := f.RunOne(cmd.Args)
		if f.Lose != nil && f.Lose(name) {
			return replies, true
		}
		replies = append(replies, reply)
	}
	return replies, false
}

// Now is the server's clock. For within [Node.Change].
func (f *Node) Now() time.Time { return time.Now().Add(f.Skew) }

// Change changes the node, or reads what it has, with its mutex held.
func (f *Node) Change(how func(f *Node)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

// Unlocked does something in the middle of a command, and gives the mutex back meanwhile. For within Answer,
// Lose and Hold.
func (f *Node) Unlocked(do func()) {
	f.mu.Unlock()
	defer f.mu.Lock()
	do()
}

// Stop makes the node silent, as a server that gets SIGSTOP: what it is sent lies in its buffers.
func (f *Node) Stop() { f.Change((*Node).Hang) }

// Hang is what [Node.Stop] does. For within [Node.Change].
func (f *Node) Hang() {
	if f.hung == nil {
		f.hung = make(chan struct{})
	}
}

// Wake makes the node answer again. What lies in its buffers stays there. For within [Node.Change].
func (f *Node) Wake() {
	if f.hung != nil {
		close(f.hung)
	}
	f.hung = nil
}

// Resume makes the node run what lies in its buffers, the last connection's first, and answer again.
func (f *Node) Resume() {
	f.Change(func(f *Node) {
		for i := len(f.Buffer) - 1; i >= 0; i-- {
			f.Buffer[i]()
		}
		f.Buffer = nil
		f.Wake()
	})
}

// Restart starts the server anew and empty, as another history of its own.
func (f *Node) Restart() {
	f.Change(func(f *Node) {
		f.starts++
		f.Info = Info(f.name + "/" + strconv.Itoa(f.starts))
		clear(f.Keys)
		clear(f.Fences)
		clear(f.Readers)
		clear(f.Waits)
		clear(f.Lines)
		clear(f.Memories)
		clear(f.Loaded)
	})
}

// Renew makes a Node a [driver.Renewer]: all connections are made anew.
func (f *Node) Renew() {
	f.Change(func(f *Node) {
		f.renewed++
		if f.next != nil {
			f.instead, f.next, f.hung = f.next, nil, nil
		}
		f.end(driver.ErrRenewed)
	})
}

// Renewals is how often the node's connections were given up.
func (f *Node) Renewals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.renewed
}

// MoveTo makes the address of a node lead to another node's server. What is connected stays where it is until
// [Node.Renew].
func (f *Node) MoveTo(to *Node) { f.Change(func(f *Node) { f.next = to }) }

// LeadTo makes the way to a node lead to another node's server at once, as a name does that resolves anew, or
// back to its own (nil).
func (f *Node) LeadTo(to *Node) { f.Change(func(f *Node) { f.instead = to }) }

// Count returns how often a command arrived, once all is done that needs no time. For within a bubble.
func (f *Node) Count(name string) (n int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Counted(name)
}

// Counted returns how often a command has arrived by now. For within [Node.Change].
func (f *Node) Counted(name string) (n int) {
	for _, logged := range f.Log {
		if logged == name {
			n++
		}
	}
	return n
}

// Batches returns how many batches arrived, once all is done that needs no time. For within a bubble.
func (f *Node) Batches() int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Calls
}
