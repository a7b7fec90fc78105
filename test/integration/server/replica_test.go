package server

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What WAIT has confirmed is on the replica when it takes its master's place.
func TestPromote(t *testing.T) {
	master, replica := launch(t), launch(t)
	ask(t, master, "SET", "before", "1")
	if err := replica.Follow(master); err != nil {
		t.Fatalf("Follow: %v", err)
	}
	if got := ask(t, replica, "GET", "before"); got != "1" {
		t.Errorf("a replica has %q of what its master had before, want 1", got)
	}
	if _, err := replica.Do("SET", "k", "1"); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a write to a replica: %v, want READONLY", err)
	}

	client := redis.NewClient(&redis.Options{Addr: master.Addr(), DisableIdentity: true, Protocol: 2})
	defer func() { _ = client.Close() }()
	conn := client.Conn() // WAIT speaks of its own connection's writes
	defer func() { _ = conn.Close() }()
	if err := conn.Set(t.Context(), "waited for", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, startTimeout).Result(); n != 1 || err != nil {
		t.Fatalf("WAIT = %d, %v, want one replica", n, err)
	}
	if err := master.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Promote(); err != nil {
		t.Fatalf("Promote: %v", err)
	}
	if got := ask(t, replica, "GET", "waited for"); got != "1" {
		t.Errorf("the new master has %q, want 1", got)
	}
	ask(t, replica, "SET", "k", "1")
}

func TestFollowSaysWhy(t *testing.T) {
	p, dead := launch(t), launch(t)
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := p.Follow(dead); err == nil || time.Since(began) > startTimeout/2 {
		t.Errorf("following a dead master: %v after %v, want an error at once", err, time.Since(began))
	}
}
