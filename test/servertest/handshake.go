package servertest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/alert"
	"github.com/quorumlock/quorumlock/internal/fault"
	"github.com/quorumlock/quorumlock/test/certificates"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// handshakes are tried often, for over TLS 1.3 a refusal comes behind the client's handshake: what
// the client sends meanwhile may fail before the refusal is read.
const handshakes = 20

// alerted has the certificate of a client refused by a server.
func (s *suite) alerted(t *testing.T) {
	files, others := certificates.New(t), certificates.New(t)
	for _, version := range []string{"TLSv1.2", "TLSv1.3"} {
		addr := redisserver.FreeAddr(t)
		_, port, _ := net.SplitHostPort(addr)
		server := redisserver.Start(t, append(files.Config(port), "tls-auth-clients yes", "tls-protocols "+version)...)
		shows := func(of certificates.Files, valid time.Duration) string {
			cert, key := of.Client(t, valid)
			return "rediss://" + addr + "?ca=" + files.CA + "&cert=" + cert + "&key=" + key
		}
		Expect(t, Open(t, s.open, shows(files, time.Hour)), "OK", "SET", "key", "value")
		for _, tt := range []struct{ name, url, advice string }{
			{"no certificate", "rediss://" + addr + "?ca=" + files.CA, "?cert=FILE&key=FILE"},
			{"one of another authority", shows(others, time.Hour), "an authority has signed which the server trusts"},
			{"one that has ended", shows(files, -time.Minute), "renew the file that ?cert= names"},
		} {
			d := Open(t, s.open, tt.url)
			for range handshakes {
				_, err := d.Do(Within(t, Patience), []driver.Command{Command("SET", "key", "value")})
				_, noSub := TrySubscribe(Within(t, Patience), t, d)
				for call, err := range map[string]error{"Do": err, "Subscribe": noSub} {
					if told := fault.Advise(err); err == nil || !strings.Contains(told.Error(), tt.advice) || !fault.Lasting(err) {
						t.Fatalf("%s, a client with %s: %s = %v, want the server's alert, with %q, and that waiting cannot mend it", version, tt.name, call, told, tt.advice)
					}
				}
				if !errors.Is(err, driver.ErrNotSent) {
					t.Fatalf("%s, a client with %s: Do = %v, want ErrNotSent", version, tt.name, err)
				}
			}
		}

		// Without TLS the server hangs up, and a server without TLS waits for more.
		_, err := Open(t, s.open, "redis://"+addr).Do(Within(t, Patience), []driver.Command{Command("GET", "key")})
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) && !errors.Is(err, driver.ErrTLS) {
			t.Errorf("%s, a client without TLS: Do = %v, want that the server has hung up", version, err)
		}
		_, err = Open(t, s.open, "rediss://"+server.Addr+"?ca="+files.CA).Do(Within(t, short), []driver.Command{Command("GET", "key")})
		if !errors.Is(err, context.DeadlineExceeded) || alert.Of(err) != "" {
			t.Errorf("a client with TLS at a server without: Do = %v, want that its time is up", err)
		}
	}
}

// renewed has certificates and authorities that are replaced while the driver lives.
func (s *suite) renewed(t *testing.T) {
	files := certificates.New(t)
	cert, key := files.Client(t, time.Hour)
	addr := redisserver.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	server := redisserver.Start(t, append(files.Config(port), "tls-auth-clients yes")...)
	d := Open(t, s.open, "rediss://"+addr+"?ca="+files.CA+"&cert="+cert+"&key="+key)
	Expect(t, d, "OK", "SET", "key", "value")
	for _, change := range []func(){
		func() { files.Issue(t, cert, key, time.Hour) },
		func() { // of another authority, by which the server is known now
			files.Renew(t, time.Hour)
			files.Issue(t, cert, key, time.Hour)
		},
	} {
		change()
		server.Ask("CONFIG", "SET", "tls-cert-file", files.Cert, "tls-key-file", files.Key, "tls-ca-cert-file", files.CA)
		server.Ask("CLIENT", "KILL", "TYPE", "normal")
		d.(driver.Renewer).Renew() // or the first call may find what was ended
		Expect(t, d, "value", "GET", "key")
		Subscribe(t, d, "a").Hear(server, "a")
	}
	// One that has ended is shown, and refused; the next one is taken.
	files.Issue(t, cert, key, -time.Minute)
	d.(driver.Renewer).Renew()
	if _, err := d.Do(Within(t, Patience), []driver.Command{Command("GET", "key")}); alert.Of(err) == "" {
		t.Errorf("with a certificate that has ended, Do = %v, want the server's alert", err)
	}
	files.Issue(t, cert, key, time.Hour)
	Expect(t, d, "value", "GET", "key")
}
