//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
)

// A page shows by HTTP who leads, and whether this process does.
type page struct {
	election *election.Election

	mu      sync.Mutex
	leader  string        // as the nodes say
	lock    *redlock.Lock // of this process's term; nil: somebody else leads, or nobody
	failure error         // of the last renewal
}

// serve answers at an address until stop is called.
func (p *page) serve(ctx context.Context, addr string) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", p.who)
	pages.HandleFunc("GET /leader", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		answer(w, p.lock != nil && p.lock.Valid(), "this process leads", "this process does not lead")
	})
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		answer(w, p.lock == nil || p.failure == nil, "ok", "this process leads, and cannot renew its lock")
	})
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) }) // until it is closed
	running.Go(func() { p.observe(ctx) })
	return func() {
		cancel()
		_ = server.Close()
		running.Wait()
	}, nil
}

// answer answers a probe.
func answer(w http.ResponseWriter, ok bool, yes, no string) {
	if !ok {
		http.Error(w, no, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte(yes + "\n")) // whoever asked may be gone
}

// who says who leads.
func (p *page) who(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	said := struct {
		Name  string `json:"name"`
		Fence int64  `json:"fence,omitempty"`
		Leads bool   `json:"leads"`
	}{Name: p.leader}
	if p.lock != nil && p.lock.Valid() {
		said.Fence, said.Leads = p.lock.Fence(), true
	}
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(said) // likewise
}

// observe follows who leads.
func (p *page) observe(ctx context.Context) {
	for leader, err := range p.election.Observe(ctx) {
		if err == nil {
			p.mu.Lock()
			p.leader = leader.Value
			p.mu.Unlock()
		}
	}
}

// leads takes note of a term of this process, or, with nil, of its end.
func (p *page) leads(lock *redlock.Lock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock, p.failure = lock, nil
}

// renewed takes note of a renewal.
func (p *page) renewed(r redlock.Renewal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = r.Err
}
