package driver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Endpoint is what a node's URL says.
type Endpoint struct {
	Network  string // "tcp" or "unix"
	Addr     string // host:port, or a socket's path
	Username string
	Password string
	DB       int
	TLS      *tls.Config // nil without TLS
}

// ParseURL reads a node's URL:
//
//	redis://[user:password@]host[:6379][/database]
//	rediss://…                                       the same over TLS
//	unix://[user:password@]/path/to/socket[?db=database]
//
// With rediss, the query may name files in PEM form: ca (the authorities to trust
// instead of the system's), cert and key (the client's own certificate), and
// servername (the name to verify instead of the host's). Verification cannot be
// turned off.
//
// No error of ParseURL shows the password.
func ParseURL(raw string) (*Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("node URL: cannot be parsed; want redis://user:password@host:port/database, with special characters in the password percent-encoded")
	}
	end := &Endpoint{Network: "tcp", Username: u.User.Username()}
	end.Password, _ = u.User.Password()
	query := u.Query()
	fail := func(format string, args ...any) (*Endpoint, error) {
		return nil, fmt.Errorf("node URL %s: %w", u.Redacted(), fmt.Errorf(format, args...))
	}

	database := strings.Trim(u.Path, "/")
	switch u.Scheme {
	case "redis", "rediss":
		if u.Hostname() == "" {
			return fail("no host")
		}
		end.Addr = net.JoinHostPort(u.Hostname(), orDefault(u.Port(), "6379"))
	case "unix":
		if u.Path == "" || u.Host != "" {
			return fail("want unix:///path/to/socket")
		}
		end.Network, end.Addr, database = "unix", u.Path, take(query, "db")
	default:
		return fail("scheme %q is not redis, rediss or unix", u.Scheme)
	}
	if database != "" {
		if end.DB, err = strconv.Atoi(database); err != nil || end.DB < 0 {
			return fail("database %q is not a number from 0 up", database)
		}
	}
	if u.Scheme == "rediss" {
		if end.TLS, err = tlsConfig(u.Hostname(), query); err != nil {
			return fail("%w", err)
		}
	}
	for name := range query {
		return fail("unknown parameter %q", name)
	}
	return end, nil
}

func tlsConfig(host string, query url.Values) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: orDefault(take(query, "servername"), host)}
	if ca := take(query, "ca"); ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: %s holds no certificate in PEM form", ca)
		}
	}
	cert, key := take(query, "cert"), take(query, "key")
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key go together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cert and key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// take removes the parameter name from the query and returns its value.
func take(query url.Values, name string) string {
	value := query.Get(name)
	query.Del(name)
	return value
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
