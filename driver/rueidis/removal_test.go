package rueidis_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/rueidis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

// rueidis panics when it gives up a channel on a server that answers a PING with an
// error, so the connection is given up instead.
func TestRemoveOnTroubledServer(t *testing.T) {
	for want, trouble := range map[string]func(t *testing.T, server *redisserver.Server, dir string){
		"MISCONF": func(t *testing.T, server *redisserver.Server, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
			ask(t, server, "SET", "key", "token")
			ask(t, server, "BGSAVE")
		},
		"BUSY": func(t *testing.T, server *redisserver.Server, _ string) {
			ask(t, server, "EVAL", "while true do end", "0") // until the server is killed
		},
	} {
		t.Run(want, func(t *testing.T) {
			protocols(t, func(t *testing.T, option client.ClientOption) {
				dir := t.TempDir() + "/gone"
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				server := redisserver.Start(t, "dir "+dir, "save 3600 1", "busy-reply-threshold 50")
				s, watch := subscribe(t, open(t, server.Addr, option)), open(t, server.Addr, option)
				s.add("removed", "kept")
				do(t, watch, plain("PING"))
				done := make(chan struct{})
				go func() {
					defer close(done)
					trouble(t, server, dir)
				}()
				await(t, "the server says "+want, func() bool {
					return strings.HasPrefix(do(t, watch, plain("PING"))[0].Str, want+" ")
				})
				if err := s.Remove(context.Background(), "removed"); err != nil {
					t.Fatalf("Remove = %v, want no error", err)
				}
				var refused *driver.ServerError
				if err := s.ended(); !errors.As(err, &refused) || refused.Code != want {
					t.Errorf("the subscription has ended with %v, want %s", err, want)
				}
				s.close()
				server.Kill()
				<-done
			})
		})
	}
}

// Trouble that begins between two commands is what a PING before does not show.
func TestTroubleWhileRemoving(t *testing.T) {
	for name, tt := range map[string]struct {
		resp2             bool
		unsubscribe, ping string // the answers
	}{
		"the server falls silent":                  {false, "", ""},
		"the server falls silent over RESP2":       {true, "", ""},
		"the PING fails":                           {false, ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n", "-MISCONF cannot save\r\n"},
		"the UNSUBSCRIBE is refused":               {false, "-NOPERM no permissions\r\n", "+PONG\r\n"},
		"the UNSUBSCRIBE is refused over RESP2":    {true, "-NOPERM no permissions\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n"},
		"the UNSUBSCRIBE and the PING are refused": {false, "-NOPERM no permissions\r\n", "-NOPERM no permissions to run the 'ping' command\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				synctest.Test(t, func(t *testing.T) { troubleWhileRemoving(t, tt.resp2, tt.unsubscribe, tt.ping) })
			}
		})
	}
}

func troubleWhileRemoving(t *testing.T, resp2 bool, unsubscribe, ping string) {
	troubled := false
	node := newMemory(func(args []string) (string, bool) {
		switch args[0] {
		case "HELLO":
			return "%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n", !resp2
		case "SUBSCRIBE":
			if resp2 {
				return "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", true
			}
			return ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", true
		case "UNSUBSCRIBE":
			troubled = true
			return unsubscribe, true
		case "PING":
			return ping, troubled
		case "ECHO":
			if unsubscribe == "" {
				return "", true
			}
			return "$4\r\nPONG\r\n", true
		}
		return "", false
	})
	nodes, err := rueidis.FromOptions(client.ClientOption{
		InitAddress: []string{"node"}, DialCtxFn: node.dial,
		ForceSingleClient: true, DisableCache: true, AlwaysRESP2: resp2,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := subscribe(t, nodes[0].Driver)
	s.add("a")
	if err := s.Remove(context.Background(), "a"); err != nil {
		t.Fatalf("Remove = %v, want no error", err)
	}
	start := time.Now()
	if err := s.ended(); err == nil {
		t.Error("the subscription has ended for no reason")
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("the subscription ended %v after the trouble began, want a second at most", took)
	}
	if err := s.Add(context.Background(), "b"); err == nil {
		t.Error("Add after the end = nil, want an error")
	}
	closeAll(nodes)
	synctest.Wait()
}

// A user without PING cannot have a channel given up safely.
func TestSubscriberWithoutPing(t *testing.T) {
	server := redisserver.Start(t, "user locks on >secret allchannels ~* +@all -ping")
	protocols(t, func(t *testing.T, option client.ClientOption) {
		option.Username, option.Password = "locks", "secret"
		s := subscribe(t, open(t, server.Addr, option))
		s.add("channel")
		s.receivesFrom(server, "channel")
		if err := s.Remove(context.Background(), "channel"); err != nil {
			t.Fatal(err)
		}
		var refused *driver.ServerError
		if err := s.ended(); !errors.As(err, &refused) || refused.Code != "NOPERM" {
			t.Errorf("after a Remove by a user without PING the subscription has ended with %v, want NOPERM", err)
		}
	})
}
