package servertest

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/certificates"
	"github.com/quorumlock/quorumlock/test/patient"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// Run runs the suite. open is the driver package's Open, and its errors begin with name.
func Run(t *testing.T, name string, open func(urls ...string) ([]driver.Node, error)) {
	s := &suite{name: name + ": ", open: open}
	for phrase, check := range map[string]func(*testing.T){
		"TLS, a user and a database are those of the URL":                s.login,
		"a Unix socket is a node":                                        s.socket,
		"a refused handshake is told with its code":                      s.refused,
		"a refused certificate is told":                                  s.alerted,
		"certificates and authorities that are replaced are read again":  s.renewed,
		"a node that is down at the start is reached when it is there":   s.comesBack,
		"a server without HELLO and CLIENT is a node":                    s.bare,
		"a stopped server holds no call up":                              s.stopped,
		"a stopped server holds no subscription up, TLS or not":          s.stoppedSubscription,
		"Close of the driver ends its subscriptions, whatever they wait": s.closed,
		"callers share a few connections, which have a name":             s.few,
	} {
		t.Run(phrase, check)
	}
}

type suite struct {
	name string
	open func(urls ...string) ([]driver.Node, error)
}

// secure starts a server that also listens over TLS, there as one user who may do little.
func (s *suite) secure(t *testing.T) (server *redisserver.Server, url, ca string) {
	t.Helper()
	files := certificates.New(t)
	addr := redisserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	server = redisserver.Start(t, files.Config(port)...)
	server.Ask("ACL", "SETUSER", "locker", "on", ">p@ss/word", "~lock:*", "&lock:*", "+set", "+get", "+select", "+subscribe", "+unsubscribe")
	return server, "rediss://locker:p%40ss%2Fword@" + addr, "?ca=" + files.CA
}

func (s *suite) login(t *testing.T) {
	server, url, ca := s.secure(t)
	third := Open(t, s.open, url+"/3"+ca)
	Expect(t, third, "OK", "SET", "lock:a", "token", "NX", "PX", "10000")
	Expect(t, third, "token", "GET", "lock:a")
	if got := Ask(t, Open(t, s.open, url+"/2"+ca), "GET", "lock:a"); got.Kind != driver.Nil {
		t.Errorf("GET in database 2 of what was set in 3 = %+v, want nil", got)
	}
	for _, denied := range [][]string{{"DEL", "lock:a"}, {"SET", "other", "token"}} {
		if got := Ask(t, third, denied...); Code(got.Err()) != "NOPERM" {
			t.Errorf("%q of a user who may not = %+v, want the reply NOPERM", denied, got)
		}
	}
	sub := Subscribe(t, third, "lock:a")
	sub.Hear(server, "lock:a")
	sub.Ask("other")
	if n := sub.Next(); n.Kind != driver.Refused || Code(n.Err) != "NOPERM" {
		t.Errorf("of a channel that is not allowed came %+v, want that it is refused with NOPERM", n)
	}
	sub.Hear(server, "lock:a")
	sub.Quit()

	_, err := Open(t, s.open, url).Do(Within(t, Patience), []driver.Command{Command("GET", "lock:a")})
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("without the authority: Do = %v, want that it is unknown, and ErrNotSent", err)
	}
}

func (s *suite) socket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.sock")
	redisserver.Start(t, "unixsocket "+path)
	Expect(t, Open(t, s.open, "unix://"+path+"?db=2"), "OK", "SET", "key", "value")
}

func (s *suite) refused(t *testing.T) {
	server := redisserver.Start(t, "requirepass right", "user reader on >right ~* +get +select", "user caged on >right ~* +get -select")
	for _, tt := range []struct{ name, user, database, code string }{
		{"a wrong password", ":wrong@", "", "WRONGPASS"},
		{"an unknown user", "nobody:right@", "", "WRONGPASS"},
		{"no password", "", "", "NOAUTH"},
		{"no password and a database", "", "/3", "NOAUTH"},
		{"a database too many", ":right@", "/99", "ERR"},
		{"a user without SELECT", "caged:right@", "/1", "NOPERM"},
		{"a user without SET", "reader:right@", "/1", "NOPERM"},
	} {
		d := Open(t, s.open, "redis://"+tt.user+server.Addr+tt.database)
		for _, way := range []string{"its first", "its second"} { // a client that was refused is not kept
			replies, err := d.Do(Within(t, Patience), []driver.Command{Command("SET", "key", "value")})
			if err != nil {
				s.isRefusal(t, tt.name+": "+way+" Do", err, tt.code)
				if !errors.Is(err, driver.ErrNotSent) {
					t.Errorf("%s: %s Do = %v, want ErrNotSent", tt.name, way, err)
				}
			} else if Code(replies[0].Err()) != tt.code || tt.code == "WRONGPASS" {
				t.Errorf("%s: %s Do = %+v, want a refusal with %s", tt.name, way, replies, tt.code)
			}
		}
		if tt.code != "NOPERM" && tt.code != "NOAUTH" {
			_, err := TrySubscribe(Within(t, Patience), t, d)
			s.isRefusal(t, tt.name+": Subscribe", err, tt.code)
		}
	}
	Expect(t, Open(t, s.open, "redis://:right@"+server.Addr), "OK", "SET", "key", "value")
}

func (s *suite) isRefusal(t *testing.T, what string, err error, code string) {
	t.Helper()
	if Code(err) != code || !strings.HasPrefix(err.Error(), s.name+"the handshake was refused: "+code+" ") || strings.ContainsAny(err.Error(), "\n@") {
		t.Errorf("%s = %v, want that the handshake was refused with %s, on one line", what, err, code)
	}
}

func (s *suite) comesBack(t *testing.T) {
	addr := redisserver.FreeAddr(t)
	d := Open(t, s.open, "redis://"+addr)
	for range 3 {
		watch := patient.Start()
		_, err := d.Do(Within(t, Patience), []driver.Command{Command("SET", "key", "token")})
		_, noSub := TrySubscribe(Within(t, Patience), t, d)
		if took := watch.Took(); !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(noSub, syscall.ECONNREFUSED) || took > most {
			t.Fatalf("Do and Subscribe on a dead node = %v, %v after %v, want that the connection was refused, at once", err, noSub, took)
		}
		if want := s.name + "dial tcp " + addr + ": "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %q, want %s…", err, want)
		}
	}
	for life := range 3 {
		server := redisserver.StartAt(t, addr)
		if _, err := d.Do(Within(t, Patience), []driver.Command{Command("SET", "key", "token", "NX")}); err != nil {
			t.Logf("life %d: first Do = %v", life, err) // the connection of the life before
			Ask(t, d, "SET", "key", "token", "NX")
		}
		Expect(t, d, "token", "GET", "key")
		server.Kill()
	}
}

// bare has servers as some services are, and users who may give their connections no name.
func (s *suite) bare(t *testing.T) {
	for _, config := range [][]string{
		{`rename-command HELLO ""`, `rename-command CLIENT ""`},
		{`rename-command CLIENT ""`},
		{`rename-command HELLO ""`},
		{"user default on nopass ~* &* +@all -client -hello"},
		{"user default on nopass ~* &* +@all -client"},
		{"user default on nopass ~* &* +@all -hello"},
	} {
		server := redisserver.Start(t, config...)
		for _, url := range []string{"redis://" + server.Addr, "redis://" + server.Addr + "/3"} {
			d := Open(t, s.open, url)
			Expect(t, d, "OK", "SET", "key", "value")
			Subscribe(t, d, "a").Hear(server, "a")
		}
	}
}

func (s *suite) stopped(t *testing.T) {
	server := redisserver.Start(t)
	d := Open(t, s.open, "redis://"+server.Addr)
	Expect(t, d, "OK", "SET", "key", "value")
	thaw := server.Freeze()
	_, err := d.Do(Within(t, short), []driver.Command{Command("GET", "key")})
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != s.name+"context deadline exceeded" {
		t.Errorf("Do = %v, want %scontext deadline exceeded", err, s.name)
	}
	thaw()
	Expect(t, d, "value", "GET", "key")
}

// stoppedSubscription fills the connection of a server that does not read.
func (s *suite) stoppedSubscription(t *testing.T) {
	server, url, ca := s.secure(t)
	server.Ask("ACL", "SETUSER", "locker", "+@all", "&*")
	flood := slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 200) // 20 MB
	for _, url := range []string{"redis://" + server.Addr, url + ca} {
		d := Open(t, s.open, url)
		late, shut, idle := Subscribe(t, d, "a"), Subscribe(t, d, "a"), Subscribe(t, d, "a")
		thaw := server.Freeze()
		watch := patient.Start()
		adds := make(chan error)
		go func() { adds <- late.Add(Within(t, Patience), flood...) }()
		err := late.Remove(Within(t, short), flood...)
		beside := <-adds
		if took := watch.Took(); took > short+most || err != nil && !errors.Is(err, context.DeadlineExceeded) || (beside == nil) != (err == nil) {
			t.Errorf("Remove = %v and the Add beside it = %v after %v, want that a deadline has passed, or that they do not wait", err, beside, took)
		}
		if err != nil {
			if why := late.End(); why.Error() != s.name+"context deadline exceeded" {
				t.Errorf("the subscription ended with %v, want that the deadline was exceeded", why)
			}
		}
		go func() { adds <- shut.Add(Within(t, Patience), flood...) }()
		shut.Quit()
		if err := <-adds; err != nil && err.Error() != s.name+"the subscription is closed" {
			t.Errorf("Add during Close = %v, want that the subscription is closed", err)
		}
		idle.Ask("b") // has room
		idle.Quit()
		late.Quit()
		thaw()
	}
}

func (s *suite) closed(t *testing.T) {
	server := redisserver.Start(t)
	for _, frozen := range []bool{false, true} {
		d := Open(t, s.open, "redis://"+server.Addr)
		subs := []*Subscription{Subscribe(t, d, "a", "b"), Subscribe(t, d)}
		thaw := func() {}
		if frozen {
			thaw = server.Freeze()
		}
		watch := patient.Start()
		Close(t, d)
		if took := watch.Took(); took > 2*most {
			t.Errorf("Close took %v, and the server was frozen: %t", took, frozen)
		}
		for _, sub := range subs {
			if why := sub.End(); !errors.Is(why, driver.ErrClosed) || why.Error() != s.name+"the driver is closed" {
				t.Errorf("the subscription has ended with %v, want that the driver is closed", why)
			}
		}
		thaw()
		if replies, err := d.Do(Within(t, Patience), []driver.Command{Command("GET", "key")}); err == nil {
			if _, err := TrySubscribe(Within(t, Patience), t, d); err != nil {
				t.Errorf("Do after Close connects again, and Subscribe = %v", err)
			}
		} else if len(replies) != 0 || !errors.Is(err, driver.ErrNotSent) || !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Do after Close = %v, %v, want ErrNotSent and ErrClosed", replies, err)
		} else if _, err := TrySubscribe(Within(t, Patience), t, d); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("Subscribe after Close = %v, want ErrClosed", err)
		}
	}
}

func (s *suite) few(t *testing.T) {
	server := redisserver.Start(t)
	count := func() int {
		return strings.Count(server.Ask("CLIENT", "LIST").Str, " name="+driver.ClientName+" ")
	}
	d := Open(t, s.open, "redis://"+server.Addr)
	Expect(t, d, "OK", "SET", "key", "value")
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range 20 {
				Expect(t, d, "value", "GET", "key")
			}
		})
	}
	callers.Wait()
	if n := count(); n < 1 || n > 8 {
		t.Errorf("64 callers had %d connections of the name %s, want some and at most 8", n, driver.ClientName)
	}
	sub := Subscribe(t, d, "a")
	sub.Quit()
	Close(t, d)
	patient.Until(t, "Close has given all connections back", func() bool { return count() == 0 })
}
