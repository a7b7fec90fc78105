package main

import (
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// way is a way to one server. Requests pass at once, and replies after the delay:
// what a client sees is the sum of both. All connections of a way share one queue,
// for with one delay for all what comes first also goes first.
type way struct {
	target string
	delay  atomic.Int64
	queue  chan parcel
	alarm  *alarm
}

// parcel is what a server said at once on one connection. No data: it hung up.
type parcel struct {
	due  time.Time
	data []byte
	to   net.Conn
}

func newWay(target string) (*way, error) {
	alarm, err := newAlarm()
	if err != nil {
		return nil, err
	}
	w := &way{target: target, queue: make(chan parcel, 1<<14), alarm: alarm}
	go w.deliver()
	return w, nil
}

func (w *way) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go w.join(client)
	}
}

// join carries one connection until either side ends it.
func (w *way) join(client net.Conn) {
	server, err := net.Dial("tcp", w.target) //nolint:noctx // on this machine; refused at once
	if err != nil {
		_ = client.Close()
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		due := time.Now().Add(time.Duration(w.delay.Load()))
		if n > 0 {
			w.queue <- parcel{due, slices.Clone(buffer[:n]), client}
		}
		if err != nil {
			w.queue <- parcel{due: due, to: client}
			return
		}
	}
}

func (w *way) deliver() {
	for p := range w.queue {
		if left := time.Until(p.due); left > 0 {
			w.alarm.sleep(left)
		}
		if len(p.data) == 0 {
			_ = p.to.Close()
		} else if _, err := p.to.Write(p.data); err != nil {
			_ = p.to.Close() // its reader notices when the server hangs up
		}
	}
}
