//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	leader  string // as the nodes say
	lock    held   // of this process's term; nil: somebody else leads, or nobody
	failure error  // of the last renewal
}

// register adds the pages to those that are served.
func (p *page) register(pages *http.ServeMux) {
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

// A leaderLine is what elect --observe prints.
type leaderLine struct {
	Schema   string    `json:"schema"`
	Time     time.Time `json:"time"`
	Election string    `json:"election"`
	Leader   string    `json:"leader"` // "": nobody
	Term     string    `json:"term,omitempty"`
}

// observeOnly prints who leads, first now and then at each change, until ctx ends.
func (e *electing) observeOnly(ctx context.Context, key string) error {
	locker, err := e.settings.openLocker()
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }() // it holds nothing
	for leader, err := range election.New(locker, key).Observe(ctx) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && e.goesOn(err):
			continue
		case err != nil:
			return err
		}
		line := &leaderLine{"quorumlock.leader/v1", time.Now().UTC(), key, leader.Value, leader.Term}
		if e.format == formatTable {
			err = e.print(line.String())
		} else {
			err = writeLines(e.tool, []*leaderLine{line})
		}
		if err != nil {
			return nil // nobody reads any more
		}
	}
	return context.Cause(ctx)
}

func (l *leaderLine) String() string {
	who := l.Leader
	if who == "" {
		who = "nobody"
	}
	return fmt.Sprintf("%s %s leads\n", l.Time.Format(time.RFC3339), who)
}

// leads takes note of a term of this process, or, with nil, of its end.
func (p *page) leads(lock held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock, p.failure = lock, nil
}

// extended takes note of a renewal.
func (p *page) extended(_ context.Context, e redlock.ExtendEnd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Renewal {
		p.failure = e.Err
	}
}
