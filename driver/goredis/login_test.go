package goredis_test

import (
	"crypto/x509"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

func TestTLSWithUserAndDatabase(t *testing.T) {
	files := redisserver.NewCertificates(t)
	secure := freePort(t)
	server := start(t, files.Config(secure)...)
	// This user may take locks and nothing else, PING included.
	server.ask("ACL", "SETUSER", "locker", "on", ">p@ss/word", "~lock:*", "+set", "+get", "+select")

	base := "rediss://locker:p%40ss%2Fword@127.0.0.1:" + secure + "/3"
	nodes, err := goredis.Open(base+"?ca="+files.CA, base)
	if err != nil {
		t.Fatal(err)
	}
	trusting, distrusting := closing(t, nodes[0].Driver), closing(t, nodes[1].Driver)

	expect(t, trusting, ok, "SET", "lock:a", "token", "NX", "PX", "10000")
	if got := server.ask("EVAL", "redis.call('SELECT', 3) return redis.call('GET', 'lock:a')", 0); got != "token" {
		t.Errorf("database 3 holds %v, want the token", got)
	}
	for _, denied := range [][]string{{"DEL", "lock:a"}, {"SET", "other", "token"}} {
		replies, err := trusting.Do(within(t, patience), []driver.Command{command(denied...)})
		if err != nil || len(replies) != 1 || code(replies[0].Err()) != "NOPERM" {
			t.Errorf("%v = %v, %v, want the reply NOPERM", denied, replies, err)
		}
	}

	_, err = distrusting.Do(within(t, patience), []driver.Command{command("GET", "lock:a")})
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("without the authority: Do = %v, want that it is unknown, and ErrNotSent", err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.sock")
	start(t, "unixsocket "+path)
	nodes, err := goredis.Open("unix://" + path + "?db=2")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, closing(t, nodes[0].Driver), ok, "SET", "key", "value")
}

// TestHandshakeRefused shows that the server's reason gets through where nothing
// of the batch was sent.
func TestHandshakeRefused(t *testing.T) {
	server := start(t, "requirepass right")
	tests := []struct {
		name    string
		options redis.Options
		want    string
	}{
		{"a wrong password", redis.Options{Password: "wrong"}, "WRONGPASS"},
		{"an unknown user", redis.Options{Username: "nobody", Password: "right"}, "WRONGPASS"},
		{"no password", redis.Options{}, "NOAUTH"},
		{"no password and a database", redis.Options{DB: 3}, "NOAUTH"},
		{"a database too many", redis.Options{Password: "right", DB: 99}, "ERR"},
	}
	for _, tt := range tests {
		tt.options.Addr = server.Addr
		d := open(t, redis.NewClient(&tt.options))
		replies, err := d.Do(within(t, patience), []driver.Command{command("SET", "key", "value")})
		if len(replies) != 0 || code(err) != tt.want || !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%s: Do = %v, %v, want a ServerError %s and ErrNotSent", tt.name, replies, err, tt.want)
		} else if want := "goredis: the handshake was refused: " + tt.want + " "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: the error is %q, want %s…", tt.name, err, want)
		}
	}
	right := open(t, redis.NewClient(&redis.Options{Addr: server.Addr, Password: "right"}))
	expect(t, right, ok, "SET", "key", "value")
}

// code returns the code word of the server's error in err.
func code(err error) string {
	var refused *driver.ServerError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}
