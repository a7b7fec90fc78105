package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/quorumlock/internal/scripts"
)

// bare is what is left of a lock library if everything is left out but the commands, the votes
// and the wake-ups: one hand-written connection to each node, no time-outs, no validity, no errors
// but the last. What a library over the same servers does is a share of it.
var bare = Contender{Library: "floor", Client: "RESP", Open: openBare}

// A bareSession is a connection to each node.
type bareSession struct {
	nodes []*bareNode
	ttl   string
}

func openBare(addrs []string, setup Setup) Session {
	s := &bareSession{ttl: strconv.FormatInt(cmp.Or(setup.TTL, ttl).Milliseconds(), 10)}
	for _, addr := range addrs {
		n := &bareNode{conn: must(net.Dial("tcp", addr))} //nolint:noctx // on this machine; refused at once
		must(fmt.Fprintf(n.conn, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(scripts.Release.Source), scripts.Release.Source))
		n.asked = append(n.asked, nil) // nobody awaits that reply
		s.nodes = append(s.nodes, n)
		go n.read()
	}
	return s
}

func (s *bareSession) Close() (err error) {
	for _, n := range s.nodes {
		err = errors.Join(err, n.conn.Close())
	}
	return err
}

// A ballot is one question to all nodes.
type ballot struct {
	votes atomic.Int64 // grants, and answers times 2^32
	done  chan struct{}
	need  int64
}

var errBare = errors.New("no quorum")

// ask lets each node have the question, and waits until a quorum has granted it or all have
// answered.
func (s *bareSession) ask(add func(n *bareNode, b *ballot)) error {
	b := &ballot{done: make(chan struct{}, 1), need: int64(len(s.nodes)/2 + 1)}
	for _, n := range s.nodes {
		n.mu.Lock()
		add(n, b)
		n.flush()
	}
	<-b.done
	if b.votes.Load()%(1<<32) < b.need {
		return errBare
	}
	return nil
}

// vote counts an answer. The one that makes the quorum, or the last one without it, wakes the
// caller.
func (b *ballot) vote(granted bool, all int64) {
	add := int64(1) << 32
	if granted {
		add++
	}
	now := b.votes.Add(add)
	if grants := now % (1 << 32); granted && grants == b.need || grants < b.need && now>>32 == all {
		b.done <- struct{}{}
	}
}

type bareHold struct {
	session    *bareSession
	key, token string
}

func (s *bareSession) Lock(_ context.Context, key string) (Hold, error) {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // never fails
	h := &bareHold{s, key, hex.EncodeToString(bits[:])}
	err := s.ask(func(n *bareNode, b *ballot) {
		n.out = append(n.out, "*6\r\n$3\r\nSET\r\n"...)
		n.word(key)
		n.word(h.token)
		n.out = append(n.out, "$2\r\nNX\r\n$2\r\nPX\r\n"...)
		n.word(s.ttl)
		n.asked = append(n.asked, []*ballot{b})
	})
	return h, err
}

// Wait tries until it has the key: right behind a release no quorum may know of it.
func (s *bareSession) Wait(ctx context.Context, key string) (Hold, error) {
	for {
		hold, err := s.Lock(ctx, key)
		if !errors.Is(err, errBare) {
			return hold, err
		}
		_ = hold.Release() // what it has got
	}
}

func (h *bareHold) Release() error {
	return h.session.ask(func(n *bareNode, b *ballot) { n.releases = append(n.releases, bareRelease{h.key, h.token, b}) })
}

// A bareNode is a connection, which whoever has something to say uses for all who have.
type bareNode struct {
	conn net.Conn

	mu       sync.Mutex
	out      []byte
	releases []bareRelease // not in out yet
	asked    [][]*ballot   // for each reply that is to come
	writing  bool
	spare    []byte
}

type bareRelease struct {
	key, token string
	ballot     *ballot
}

// flush writes what there is, unless somebody is about to. It unlocks n.mu.
func (n *bareNode) flush() {
	if n.writing {
		n.mu.Unlock()
		return
	}
	n.writing = true
	for {
		n.mu.Unlock()
		runtime.Gosched() // who is ready joins
		n.mu.Lock()
		n.group()
		out := n.out
		if len(out) == 0 {
			break
		}
		n.out = n.spare[:0]
		n.mu.Unlock()
		_, _ = n.conn.Write(out) // the reader sees that it is gone
		n.mu.Lock()
		n.spare = out
	}
	n.writing = false
	n.mu.Unlock()
}

// group puts the releases into as few calls as possible.
func (n *bareNode) group() {
	for all := n.releases; len(all) > 0; {
		some := all[:min(len(all), 32)]
		all = all[len(some):]
		n.out = append(n.out, '*')
		n.out = strconv.AppendInt(n.out, int64(3+2*len(some)), 10)
		n.out = append(n.out, "\r\n$7\r\nEVALSHA\r\n"...)
		n.word(scripts.Release.Digest)
		n.word(strconv.Itoa(len(some)))
		ballots := make([]*ballot, 0, len(some))
		for _, r := range some {
			n.word(r.key)
			ballots = append(ballots, r.ballot)
		}
		for _, r := range some {
			n.word(r.token)
		}
		n.asked = append(n.asked, ballots)
	}
	clear(n.releases)
	n.releases = n.releases[:0]
}

func (n *bareNode) word(s string) {
	n.out = append(n.out, '$')
	n.out = strconv.AppendInt(n.out, int64(len(s)), 10)
	n.out = append(n.out, "\r\n"...)
	n.out = append(n.out, s...)
	n.out = append(n.out, "\r\n"...)
}

// read gives each reply to those who have asked for it, until the connection is closed. A reply is
// +OK, a nil, an integer that has a bit for each released key, or the digest of the script.
func (n *bareNode) read() {
	in := bufio.NewReaderSize(n.conn, 64<<10)
	var asked [][]*ballot
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(asked) == 0 {
			n.mu.Lock()
			asked, n.asked = n.asked, nil
			n.mu.Unlock()
		}
		bits := int64(0)
		switch line[0] {
		case '+':
			bits = 1
		case ':':
			bits, _ = strconv.ParseInt(string(line[1:len(line)-2]), 10, 64) // otherwise nothing was granted
		case '$':
			if line[1] != '-' {
				_, _ = in.ReadSlice('\n') // ends the loop the next time
			}
		}
		for i, b := range asked[0] {
			b.vote(bits&(1<<i) != 0, nodes)
		}
		asked = asked[1:]
	}
}
