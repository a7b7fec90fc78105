package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/quorumlock/test/integration/server"
	"github.com/quorumlock/quorumlock/test/proxy"
)

// Trouble is what is wrong with some of the nodes: the last ones.
type Trouble struct {
	Name         string
	proxied      bool // clients reach all nodes by proxies, in good health, too
	computes     bool // this process computes
	strike, lift func(*Site) error
}

// well is no trouble.
var well = Trouble{strike: func(*Site) error { return nil }, lift: func(*Site) error { return nil }}

// hung nodes accept connections and say nothing.
func hung(n int) Trouble {
	return Trouble{
		plural(n, "node") + " hung", false, false,
		func(s *Site) error { return s.last(n, (*server.Process).Pause) },
		func(s *Site) error { return s.last(n, (*server.Process).Continue) },
	}
}

// refused nodes have crashed.
func refused(n int) Trouble {
	return Trouble{
		plural(n, "node") + " refused", false, false,
		func(s *Site) error { return s.last(n, (*server.Process).Kill) },
		func(s *Site) error { return s.last(n, (*server.Process).Start) },
	}
}

// farther nodes take a round trip that is longer by d. Half a d should be whole milliseconds, for
// which timers are right.
func farther(n int, d time.Duration) Trouble {
	return throughProxies(n, fmt.Sprintf("farther by %v", d), "delay", d/2)
}

// slow nodes take up to d more for an answer, each time another while.
func slow(n int, d time.Duration) Trouble {
	return throughProxies(n, fmt.Sprintf("slow by up to %v", d), "jitter", d/2)
}

// flapping nodes are unreachable for 300 ms, and well for 300 ms, again and again.
func flapping(n int) Trouble { return throughProxies(n, "flapping", "refuse", 300*time.Millisecond) }

// lossy nodes are at the end of lines that lose a packet again and again: all waits for 200 ms then,
// in which TCP sends it once more.
func lossy(n int) Trouble { return throughProxies(n, "lossy", "cut", 200*time.Millisecond) }

// busy is a process in which so many goroutines a core compute.
func busy(each int) Trouble {
	rest := func() {}
	return Trouble{
		fmt.Sprintf("%d goroutines a core compute", each), false, true,
		func(*Site) error { rest = spin(each); return nil },
		func(*Site) error { rest(); return nil },
	}
}

// spin lets so many goroutines a core compute until rest is called.
func spin(each int) (rest func()) {
	var over atomic.Bool
	var computing sync.WaitGroup
	for range each * runtime.GOMAXPROCS(0) {
		computing.Go(func() {
			for n := 1; !over.Load(); {
				n = n*3 + 1
			}
		})
	}
	return func() {
		over.Store(true)
		computing.Wait()
	}
}

// throughProxies is a trouble that an order with a duration begins, and that with none ends.
func throughProxies(n int, name, word string, d time.Duration) Trouble {
	return Trouble{
		plural(n, "node") + " " + name, true, false,
		func(s *Site) error { return s.proxies.last(n, word, d) },
		func(s *Site) error { return s.proxies.last(n, word, 0) },
	}
}

// last does something to the last n nodes.
func (s *Site) last(n int, do func(*server.Process) error) (err error) {
	for _, p := range s.Cluster[nodes-n:] {
		err = errors.Join(err, do(p))
	}
	return err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return whole(float64(n)) + " " + what + "s"
}

// Proxies are ways to servers that are as bad as somebody wants. They are a process of its
// own, so that what they cost is not among what a contender is measured by.
type Proxies struct {
	*Child
	addrs []string // in the order of the servers
}

func startProxies(targets []string) *Proxies {
	p := &Proxies{Child: startChild("proxies", targets)}
	check(p.answer(&p.addrs))
	return p
}

// last gives an order to the last n of them.
func (p *Proxies) last(n int, word string, d time.Duration) (err error) {
	var done bool
	for i := len(p.addrs) - n; i < len(p.addrs); i++ {
		err = errors.Join(err, p.order(word, i, int64(d)), p.answer(&done))
	}
	return err
}

// serveProxies is the process: it says where the proxies are, and obeys orders, each a word, a
// server's number and a duration, which is 0 where a trouble ends.
func serveProxies(spec []byte, orders *bufio.Scanner, answers *json.Encoder) {
	var targets, addrs []string
	check(json.Unmarshal(spec, &targets))
	proxies, calm := make([]*proxy.Proxy, len(targets)), make([]func(), len(targets))
	for i, target := range targets {
		proxies[i] = must(proxy.New(target))
		addrs = append(addrs, proxies[i].Addr())
	}
	for check(answers.Encode(addrs)); orders.Scan(); check(answers.Encode(true)) {
		var word string
		var i int
		var d time.Duration
		must(fmt.Sscan(orders.Text(), &word, &i, (*int64)(&d)))
		p := proxies[i]
		switch {
		case word == "delay":
			p.Delay(d)
		case word == "jitter":
			p.Jitter(d)
		case d == 0:
			calm[i]()
		case word == "cut":
			calm[i] = again(d, func() { p.Cut(proxy.Both) }, p.Mend)
		case word == "refuse":
			calm[i] = again(d, func() { _ = p.Refuse() }, func() { _ = p.Accept() })
		}
	}
	for _, p := range proxies {
		check(p.Close())
	}
}

// again begins something and ends it after d, and so on after as long a time, until it is calmed.
func again(d time.Duration, begin, end func()) (calm func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer end()
		for do, next := begin, end; ; do, next = next, do {
			do()
			select {
			case <-over:
				return
			case <-time.After(d):
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}
