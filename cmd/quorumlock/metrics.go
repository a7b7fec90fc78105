//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorumlock/quorumlock/internal/supervise"
)

// figures are what a run has come to so far, for monitors.
type figures struct {
	mu                   sync.Mutex
	key                  string
	started              int // programs
	renewals, lost       int
	waiting, held, until time.Time // since when; zero: it does not
	ended                time.Time
	code                 int
}

// note takes note of an event.
func (f *figures) note(e *runEvent) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.key = e.Key
	if e.Until != nil {
		f.until = *e.Until
	}
	switch e.Event {
	case eventWaiting:
		f.waiting, f.held = now, time.Time{}
	case eventAcquired:
		f.waiting, f.held = time.Time{}, now
	case string(supervise.Started):
		f.started++
	case string(supervise.Extended):
		f.renewals++
	case string(supervise.Lost):
		f.lost++
	case eventReleased:
		f.held = time.Time{}
	case eventExit:
		f.waiting, f.held, f.ended, f.code = time.Time{}, time.Time{}, now, *e.Code
	}
}

// text shows the figures as Prometheus reads them.
func (f *figures) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text exposition
	labels := fmt.Sprintf("{key=%s} ", label(f.key))
	add := func(name, kind, help string, value any) {
		text.family("quorumlock_run_"+name, kind, help, labels+fmt.Sprint(value))
	}
	at := func(name, help string, t time.Time) {
		if !t.IsZero() {
			add(name, "gauge", help, fmt.Sprintf("%.3f", float64(t.UnixMilli())/1e3))
		}
	}
	held := 0
	if !f.held.IsZero() {
		held = 1
	}
	add("held", "gauge", "1 while the lock is held.", held)
	at("waiting_since_timestamp_seconds", "Since when it waits for the lock.", f.waiting)
	at("held_since_timestamp_seconds", "Since when the lock is held.", f.held)
	if held == 1 {
		at("lease_until_timestamp_seconds", "The deadline of the lease.", f.until)
	}
	add("renewals_total", "counter", "Renewals of the lease.", f.renewals)
	add("leases_lost_total", "counter", "Leases that ended before their program.", f.lost)
	add("starts_total", "counter", "Programs that were started: the first, and each restart.", f.started)
	if !f.ended.IsZero() {
		add("exit_code", "gauge", "The exit code of the command.", f.code)
		at("exit_timestamp_seconds", "When the command ended.", f.ended)
	}
	return text.String()
}

// deadline is that of the last lease that was told.
func (f *figures) deadline() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.until
}

// served does what there is to do while the pages are served.
func (r *running) served(ctx context.Context, do func() error) error {
	if r.listen == "" {
		return do()
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", r.listen)
	if err != nil {
		return exit(exitConfig, fmt.Errorf("--listen: %w", err))
	}
	r.pages.HandleFunc("GET /metrics", r.figures.page)
	server := &http.Server{Handler: &r.pages, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // until it is closed
	defer func() { _ = server.Close(); serving.Wait() }()
	return do()
}

// page shows the figures by HTTP.
func (f *figures) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, f.text()) // who asked may be gone
}

// A textfile is where the figures are put when a run ends, for node_exporter.
type textfile struct {
	name string
	file *os.File // that takes its place
}

// newTextfile makes sure that there is room for the file. The name may be "": then there is none.
func newTextfile(name string) (*textfile, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // nobody reads it
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return nil, exitf(exitUsage, "--textfile: %w", err)
	}
	return &textfile{name, file}, nil
}

// write puts a text in the place of the file at once, so that nobody reads half of it.
func (t *textfile) write(text string) error {
	if t == nil {
		return nil
	}
	_, err := t.file.WriteString(text)
	err = cmp.Or(err, t.file.Chmod(0o644), t.file.Close()) // for the user of node_exporter
	if err == nil {
		err = os.Rename(t.file.Name(), t.name)
	}
	if err != nil {
		_ = os.Remove(t.file.Name())
		return fmt.Errorf("--textfile: %w", err)
	}
	return nil
}
