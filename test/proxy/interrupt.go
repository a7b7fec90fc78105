package proxy

import (
	"bufio"
	"bytes"

	"github.com/quorumlock/quorumlock/driver/resp"
)

// An interruption is something that happens in the middle of a batch.
type interruption struct {
	place    func(commands [][]string) int
	do       func()
	happened bool          // guarded by Proxy.mu
	done     chan struct{} // closed when do has returned
}

// Interrupt calls do in the middle of a batch of requests: the first n commands of the batch
// have been sent to the server, and the others are sent when do returns. Connections stay
// open. It happens once, on the first connection whose batch suits: place is given the
// commands of each batch, and returns n, or -1 if the batch does not suit. Place must not
// call the proxy. One interruption can wait at a time: the last.
//
// A server with one thread runs the first n commands before any command that do sends it.
//
// A batch is what one read returns. One that begins within a command is not seen.
//
// The function that is returned takes the interruption back, or waits for do if it has
// begun. It reports whether do has run.
func (p *Proxy) Interrupt(place func(commands [][]string) (n int), do func()) (end func() (happened bool)) {
	i := &interruption{place: place, do: do, done: make(chan struct{})}
	p.mu.Lock()
	p.pending = i
	p.mu.Unlock()
	return func() bool {
		p.mu.Lock()
		if p.pending == i {
			p.pending = nil
		}
		happened := i.happened
		p.mu.Unlock()
		if happened {
			<-i.done
		}
		return happened
	}
}

// Observe shows the commands of each batch of requests before they are sent, until the end
// that it returns. An observer must not call the proxy.
func (p *Proxy) Observe(see func(commands [][]string)) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.observers[&see] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.observers, &see)
	}
}

// interrupted returns how much of the batch goes ahead and what then happens, or nil.
func (p *Proxy) interrupted(batch []byte) (ahead int, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.pending
	if i == nil && len(p.observers) == 0 {
		return 0, nil
	}
	words, ends := commands(batch)
	if len(words) == 0 {
		return 0, nil
	}
	for see := range p.observers {
		(*see)(words)
	}
	if i == nil {
		return 0, nil
	}
	n := i.place(words)
	if n < 0 {
		return 0, nil
	}
	p.pending, i.happened = nil, true
	return ends[n], func() {
		defer close(i.done)
		i.do()
	}
}

// commands returns the commands of a batch of requests, word by word, and the boundaries
// between them: ends[n] is the length of the first n commands. It leaves out what follows the
// last whole command. A batch that does not begin with a command has none.
func commands(batch []byte) (words [][]string, ends []int) {
	ends = []int{0}
	from := bytes.NewReader(batch)
	in := bufio.NewReader(from)
	for read := resp.NewReader(in); ; {
		command, err := read.Command()
		if err != nil || len(command) == 0 {
			return words, ends
		}
		words, ends = append(words, command), append(ends, len(batch)-from.Len()-in.Buffered())
	}
}
