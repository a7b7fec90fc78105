package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/inspect"
	"github.com/quorumlock/quorumlock/internal/acl"
	"github.com/quorumlock/quorumlock/redlock"
)

// A user with the rights of the table, and no others, can do what they are for, and no event says
// that something is missing.
func TestTheTableOfRightsIsEnough(t *testing.T) {
	t.Parallel()
	lock := func(ctx context.Context, l *redlock.Locker) error {
		held, err := l.Acquire(ctx, "42")
		if err != nil {
			return err
		}
		waits := make(chan error, 1)
		go func() {
			next, err := l.Acquire(ctx, "42")
			if err == nil {
				err = next.Release(ctx)
			}
			waits <- err
		}()
		if err := held.Extend(ctx, 10*time.Second); err != nil {
			return err
		}
		if err := held.Release(ctx); err != nil {
			return err
		}
		return <-waits
	}
	for _, tt := range []struct {
		name    string
		feature *acl.Feature
		options []redlock.Option
		use     func(context.Context, *redlock.Locker) error
	}{
		{"locks", acl.Locks, nil, lock},
		{"sets", acl.Sets, nil, func(ctx context.Context, l *redlock.Locker) error {
			held, err := l.AcquireAll(ctx, []string{"1", "2", "3"})
			if err != nil {
				return err
			}
			return held.Release(ctx)
		}},
		{"semaphores", acl.Semaphore, nil, func(ctx context.Context, l *redlock.Locker) error {
			s, err := l.Semaphore("pool", 2)
			if err != nil {
				return err
			}
			held, err := s.Acquire(ctx)
			if err != nil {
				return err
			}
			return held.Release(ctx)
		}},
		{"shared", acl.Shared, nil, func(ctx context.Context, l *redlock.Locker) error {
			held, err := l.AcquireShared(ctx, "42")
			if err != nil {
				return err
			}
			if err := held.Release(ctx); err != nil {
				return err
			}
			return lock(ctx, l)
		}},
		{"fences", acl.Fences, []redlock.Option{redlock.WithFences()}, lock},
		{"the guard", acl.RestartGuard, []redlock.Option{redlock.WithRestartGuard(time.Minute)}, func(ctx context.Context, l *redlock.Locker) error {
			if err := l.AdmitNewNodes(ctx); err != nil {
				return err
			}
			return lock(ctx, l)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			var urls []string
			rules := acl.Rules("orders:", acl.Locks, acl.WakeUps, tt.feature)
			for _, s := range w.servers {
				do(t, s.Addr, slices.Concat([]string{"ACL", "SETUSER", "locks", "on", ">secret"}, rules)...)
				urls = append(urls, (&url.URL{Scheme: "redis", User: url.UserPassword("locks", "secret"), Host: s.Addr}).String())
			}
			nodes, err := goredis.Open(urls...)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var events []string
			locker, err := redlock.New(nodes, append(tt.options, redlock.WithKeyPrefix("orders:"), redlock.WithNodeTimeout(5*time.Second), redlock.OnEvent(func(e redlock.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind != redlock.NodeUp && e.Kind != redlock.NodeAdmitted {
					events = append(events, fmt.Sprint(e))
				}
			}))...)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := tt.use(ctx, locker); err != nil {
				t.Errorf("with %q: %v", rules, err)
			}
			if err := locker.Close(); err != nil {
				t.Errorf("with %q: %v", rules, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if tt.feature != acl.RestartGuard && events != nil {
				t.Errorf("with %q nodes say: %q", rules, events)
			}
		})
	}
}

// What the user may not ask is "cannot tell", and never fit; with the rights of the doctor's row
// nothing is left untold.
func TestAUserWithTheRightsOfTheTableIsFoundToHaveThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		features []*acl.Feature
		untold   bool
	}{
		{"of locks", []*acl.Feature{acl.Locks, acl.WakeUps}, true},
		{"of locks and of the doctor", []*acl.Feature{acl.Locks, acl.WakeUps, acl.Doctor}, false},
	} {
		w := newWard(t)
		w.args = append(w.args, "--prefix", "orders:")
		for i := range w.servers {
			w.do(i+1, slices.Concat([]string{"ACL", "SETUSER", "locks", "on", ">secret"}, acl.Rules("orders:", tt.features...))...)
		}
		w.nodes = strings.ReplaceAll(w.nodes, "redis://", "redis://locks:secret@")
		r := w.examine()
		untold := map[string]bool{}
		for _, f := range r.All() {
			switch f.Severity {
			case inspect.Unfit:
				t.Errorf("a user with the rights %s: %s is unfit: %v: %s", tt.name, f.ID, f.Seen, f.Why)
			case inspect.Unknown:
				untold[f.ID] = true
			}
		}
		if tt.untold && (!untold["latency"] || !untold["limits"] || !untold["wake-ups"] || !untold["foreign"]) || !tt.untold && len(untold) > 0 {
			t.Errorf("a user with the rights %s: cannot tell %v", tt.name, untold)
		}
	}
}
