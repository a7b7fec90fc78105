package redigo_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/redigo"
	"github.com/quorumlock/quorumlock/internal/redisserver"
)

const (
	short    = 200 * time.Millisecond // for a call that will not be answered
	patience = 10 * time.Second       // for one that will
)

// do sends cmds to a server that has no reason not to answer.
func do(t testing.TB, d driver.Driver, cmds ...driver.Command) []driver.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	replies, err := d.Do(ctx, cmds)
	if err != nil {
		t.Fatalf("Do(%q…) = %v, want its replies", cmds[0].Args, err)
	}
	return replies
}

// returnsInTime sends one command to a server that will not answer, and returns
// Do's error.
func returnsInTime(t testing.TB, d driver.Driver) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), short)
	defer cancel()
	start := time.Now()
	_, err := d.Do(ctx, []driver.Command{command("SET", "key", "value")})
	if took := time.Since(start); took > short+2*time.Second { // 50ms, and a busy machine
		t.Errorf("Do with %v to go returned after %v", short, took)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do = %v, want that its deadline has passed", err)
	}
	return err
}

func TestOpenOverTLSAsAUserInADatabase(t *testing.T) {
	files := redisserver.NewCertificates(t)
	addr := redisserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redisserver.StartAt(t, addr, append(files.Config(port), "port 0", "user default off", "user lock on >p@ss/word ~* &* +@all")...)
	d := open(t, "rediss://lock:p%40ss%2Fword@"+addr+"/3?ca="+url.QueryEscape(files.CA))
	replies := do(t, d, command("SET", "key", "value", "NX", "PX", "10000"), command("ACL", "WHOAMI"), command("INFO", "keyspace"))
	if got := replies[0].Str; got != "OK" {
		t.Errorf("SET = %q, want OK", got)
	}
	if got := replies[1].Str; got != "lock" {
		t.Errorf("the connection is user %q's, want lock's", got)
	}
	if got := replies[2].Str; got != "# Keyspace\r\ndb3:keys=1,expires=1,avg_ttl=0\r\n" {
		t.Errorf("the keys are in %q, want one in database 3", got)
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := open(t, "rediss://lock:p%40ss%2Fword@"+addr).Do(ctx, []driver.Command{command("PING")})
	if !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("without ca, Do = %v, want that nothing was sent to a server that is not trusted", err)
	}
}

func TestRefusalsKeepTheirCodeWord(t *testing.T) {
	server := redisserver.Start(
		t,
		"requirepass secret",
		"user reader on >secret ~* +get +select",
		"user caged on >secret ~* +get -select",
	)
	byPool := func(options ...redis.DialOption) *redis.Pool {
		return &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr, options...) }}
	}
	for _, tt := range []struct {
		name      string
		driver    *redigo.Driver
		handshake bool // it is there that the server refuses
		code      string
	}{
		{name: "no password", driver: open(t, "redis://"+server.Addr), code: "NOAUTH"},
		{name: "wrong password", driver: open(t, "redis://:wrong@"+server.Addr), handshake: true, code: "WRONGPASS"},
		{name: "wrong password of a user", driver: open(t, "redis://reader:wrong@"+server.Addr), handshake: true, code: "WRONGPASS"},
		{name: "user without SET", driver: open(t, "redis://reader:secret@"+server.Addr+"/1"), code: "NOPERM"},
		{name: "user without SELECT", driver: open(t, "redis://caged:secret@"+server.Addr+"/1"), handshake: true, code: "NOPERM"},
		{name: "pool with a wrong password", driver: newDriver(t, byPool(redis.DialPassword("wrong"))), handshake: true, code: "WRONGPASS"},
		{name: "pool without SELECT", driver: newDriver(t, byPool(redis.DialUsername("caged"), redis.DialPassword("secret"), redis.DialDatabase(1))), handshake: true, code: "NOPERM"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		replies, err := tt.driver.Do(ctx, []driver.Command{command("SET", "key", "value")})
		cancel()
		if tt.handshake != errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%s: Do = %v, want that nothing was sent: %t", tt.name, err, tt.handshake)
		} else if want := "redigo: the handshake was refused: " + tt.code + " "; tt.handshake && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: the error is %q, want %s…", tt.name, err, want)
		}
		if err == nil {
			err = replies[0].Err()
		}
		var refusal *driver.ServerError
		if !errors.As(err, &refusal) || refusal.Code != tt.code {
			t.Errorf("%s: the error is %v, want one with the code word %s", tt.name, err, tt.code)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	addr := redisserver.FreeAddr(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := open(t, "redis://"+addr).Do(ctx, []driver.Command{command("PING")})
	want := "redigo: dial tcp " + addr + ": "
	if !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, syscall.ECONNREFUSED) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Do = %v, want that nothing was sent, and %s…", err, want)
	}
}

func TestStoppedServer(t *testing.T) {
	for name, set := range map[string]func(*redis.Pool){
		"default pool": func(*redis.Pool) {},
		"pool that dials for each call": func(p *redis.Pool) {
			p.MaxActive, p.Wait = 2, true
		},
		"pool whose Dial says AUTH, and whose TestOnBorrow PING": func(p *redis.Pool) {
			plain := p.Dial
			p.MaxIdle, p.MaxActive = 1, 2
			p.Dial = func() (redis.Conn, error) {
				conn, err := plain()
				if err != nil {
					return nil, err
				}
				if _, err := conn.Do("AUTH", "default", ""); err != nil {
					return nil, err
				}
				return conn, nil
			}
			p.TestOnBorrow = func(conn redis.Conn, _ time.Time) error {
				_, err := conn.Do("PING")
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := redisserver.Start(t, "user default on nopass ~* &* +@all")
			pool := newPool(t, server.Addr)
			set(pool)
			d := newDriver(t, pool)
			do(t, d, command("SET", "key", "value"))
			server.Signal(syscall.SIGSTOP)
			for range 3 {
				_ = returnsInTime(t, d)
			}
			server.Signal(syscall.SIGCONT)
			do(t, d, command("SET", "key", "value"))
		})
	}
}

// The core sends a batch twice at most, and here every connection that idles in the
// pool is dead.
func TestServerThatRestartedIsReachedByTheSecondTry(t *testing.T) {
	for name, maxActive := range map[string]int{"connections are kept": 0, "connections are not kept": 7} {
		t.Run(name, func(t *testing.T) {
			server := redisserver.Start(t)
			pool := newPool(t, server.Addr)
			pool.MaxIdle, pool.MaxActive = 7, maxActive
			var idle []redis.Conn
			for range 6 {
				idle = append(idle, pool.Get())
			}
			for _, conn := range idle {
				if err := conn.Close(); err != nil {
					t.Fatal(err)
				}
			}
			d := newDriver(t, pool)
			do(t, d, command("SET", "key", "value"))
			server.Kill()
			redisserver.StartAt(t, server.Addr)

			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if _, err := d.Do(ctx, []driver.Command{command("PING")}); err == nil || errors.Is(err, driver.ErrNotSent) {
				t.Errorf("Do on a connection that has died = %v, want a failure of unknown outcome", err)
			}
			do(t, d, command("SET", "key", "value"))
		})
	}
}

func TestCloseEndsAHandshakeWithASilentServer(t *testing.T) {
	expectNothing, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = expectNothing.Close() }()
	for _, scheme := range []string{"redis", "rediss"} {
		d := open(t, scheme+"://:secret@"+expectNothing.Addr().String())
		if err := returnsInTime(t, d); !errors.Is(err, driver.ErrNotSent) {
			t.Errorf("%s: Do during a handshake = %v, want that nothing was sent", scheme, err)
		}
		start := time.Now()
		if err := d.Close(); err != nil {
			t.Errorf("%s: Close = %v", scheme, err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s: Close took %v, as long as the handshake may", scheme, took)
		}
	}
}
