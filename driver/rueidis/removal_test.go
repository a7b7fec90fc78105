package rueidis_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/redis/rueidis"

	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
	"github.com/quorumlock/quorumlock/test/servertest"
)

// rueidis panics when it gives up a channel on a server that answers a PING with an
// error, so the connection is given up instead.
func TestRemoveOnTroubledServer(t *testing.T) {
	for want, trouble := range map[string]func(t *testing.T, server *redisserver.Server, dir string){
		"MISCONF": func(t *testing.T, server *redisserver.Server, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
			server.Ask("SET", "key", "token")
			server.Ask("BGSAVE")
		},
		"BUSY": func(t *testing.T, server *redisserver.Server, _ string) {
			_, _ = redisserver.Ask(t.Context(), server.Addr, "EVAL", "while true do end", "0") // until the server is killed
		},
		"NOPERM": func(_ *testing.T, server *redisserver.Server, _ string) {
			server.Ask("ACL", "SETUSER", "default", "-ping")
		},
	} {
		t.Run(want, func(t *testing.T) {
			protocols(t, func(t *testing.T, option client.ClientOption) {
				dir := t.TempDir() + "/gone"
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				server := redisserver.Start(t, "dir "+dir, "save 3600 1", "busy-reply-threshold 50")
				option.InitAddress = []string{server.Addr}
				s, watch := servertest.Subscribe(t, open(t, option), "removed", "kept"), open(t, option)
				servertest.Ask(t, watch, "PING")
				done := make(chan struct{})
				go func() {
					defer close(done)
					trouble(t, server, dir)
				}()
				patient.Until(t, "the server says "+want, func() bool {
					return strings.HasPrefix(servertest.Ask(t, watch, "PING").Str, want+" ")
				})
				if err := s.Remove(context.Background(), "removed"); err != nil {
					t.Fatalf("Remove = %v, want no error", err)
				}
				if err := s.End(); servertest.Code(err) != want {
					t.Errorf("the subscription has ended with %v, want %s", err, want)
				}
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
	option := inBubble(t, func(_ int, args []string) (string, bool) {
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
	option.AlwaysRESP2 = resp2
	d := open(t, option)
	s := servertest.Subscribe(t, d, "a")
	if err := s.Remove(context.Background(), "a"); err != nil {
		t.Fatalf("Remove = %v, want no error", err)
	}
	start := time.Now()
	_ = s.End()
	if took := time.Since(start); took > time.Second {
		t.Errorf("the subscription ended %v after the trouble began, want a second at most", took)
	}
	servertest.Close(t, d)
	synctest.Wait()
}
