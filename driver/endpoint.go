package driver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Endpoint is what a node's URL says.
type Endpoint struct {
	Network  string // "tcp" or "unix"
	Addr     string // host:port, or a socket's path; of the first Sentinel, or of the Cluster's first server
	Username string
	Password string
	DB       int
	TLS      *tls.Config // nil without TLS

	Master                             string   // the node's name with its Sentinels; "": it has none
	Sentinels                          []string // where the Sentinels listen
	SentinelUsername, SentinelPassword string
	Seeds                              []string // servers of a node that is a Redis Cluster; nil: it is none
}

// ClientName is the name that connections have which drivers make from URLs: CLIENT LIST shows
// it.
const ClientName = "quorumlock"

// errUnreadable is all that is said of a URL that was cut in the wrong place.
var errUnreadable = errors.New("node URL: cannot be parsed; want redis://user:password@host:port/database, with special characters in the password percent-encoded")

// ParseURL reads a node's URL:
//
//	redis://[user:password@]host[:6379][/database]
//	rediss://…                                       the same over TLS
//	unix://[user:password@]/path/to/socket[?db=database]
//	redis-sentinel://[user:password@]host[:26379][/database]?master=name[&addr=host:port…]
//	redis-cluster://[user:password@]host[:6379][?addr=host:port…]
//
// The node of a redis-sentinel URL is the master of this name, which the Sentinels at host and at each addr
// find. Sentinels that want a password take it from sentinel_password, and sentinel_username. The node of a
// redis-cluster URL is the Redis Cluster of these servers. Over TLS the two are rediss-sentinel and
// rediss-cluster, and servername, by default the host, is the name of every server.
//
// A password without a user is ":password@". A user without a password, or with an
// empty one, is refused: clients would go on as the default user. Special characters in
// a password have to be percent-encoded: "/" is %2F.
//
// With rediss, the query may name files in PEM form: ca (the authorities to trust
// instead of the system's), cert and key (the client's own certificate), and
// servername (the name to verify instead of the host's). Verification cannot be
// turned off. A file that is gone or malformed is an error with its path. Files that change are
// read again when a connection is made; while one is gone or malformed then, what it held last
// serves.
//
// No error of ParseURL shows the password, encoded or not.
func ParseURL(raw string) (*Endpoint, error) {
	if !strings.Contains(raw, "://") {
		return nil, errors.New("node URL: it has no scheme: want redis://host:port, or rediss:// for TLS")
	}
	if strings.Count(raw, "://") > 1 {
		return nil, errors.New("node URL: there are several in one: give one argument per URL")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errUnreadable
	}
	// A "/", "?" or "#" in a password ends the host too early: then the @ comes
	// late, and any part of the URL may be the password.
	cut := strings.Contains(u.Opaque+u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@")
	fail := func(format string, args ...any) (*Endpoint, error) {
		if cut {
			return nil, errUnreadable
		}
		return nil, fmt.Errorf("node URL %s://%s: %w", u.Scheme, u.Hostname(), fmt.Errorf(format, args...))
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fail("its parameters cannot be parsed")
	}
	more := query["addr"]
	delete(query, "addr")
	for name, values := range query {
		if len(values) != 1 || values[0] == "" {
			return fail("parameter %q has no value, or several", name)
		}
	}
	if u.Fragment != "" {
		return fail("a URL of a node has no #")
	}

	end := &Endpoint{Network: "tcp", Username: u.User.Username()}
	end.Password, _ = u.User.Password()
	if end.Username != "" && end.Password == "" {
		// Some tools take what stands there for the password, so it is not shown.
		return fail("a user without a password: want user:password@, or :password@ without a user")
	}

	database := strings.Trim(u.Path, "/")
	base, topology, _ := strings.Cut(u.Scheme, "-")
	switch u.Scheme {
	case "redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster":
		if u.Hostname() == "" {
			return fail("no host")
		}
		if strings.Contains(u.Host, ",") {
			return fail("it lists several hosts: give one argument per URL")
		}
		if strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[") {
			return fail("want one host, an IPv6 address in brackets")
		}
		port := "6379"
		if topology == "sentinel" {
			port = "26379"
		}
		port = orDefault(u.Port(), port)
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fail("its port is not from 1 to 65535")
		}
		end.Addr = net.JoinHostPort(u.Hostname(), port)
	case "unix":
		if u.Path == "" || u.Host != "" {
			return fail("want unix:///path/to/socket")
		}
		end.Network, end.Addr, database = "unix", u.Path, take(query, "db")
	default:
		return fail("scheme %q is not redis, rediss, unix, redis-sentinel or redis-cluster", u.Scheme)
	}
	for _, addr := range more {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			return fail("addr %q is not host:port", addr)
		}
	}
	switch topology {
	case "sentinel":
		end.Sentinels = append([]string{end.Addr}, more...)
		end.Master, end.SentinelUsername, end.SentinelPassword = take(query, "master"), take(query, "sentinel_username"), take(query, "sentinel_password")
		if end.Master == "" {
			return fail("want the master's name with the Sentinels: ?master=name")
		}
	case "cluster":
		end.Seeds = append([]string{end.Addr}, more...)
		if database != "" {
			return fail("a Redis Cluster has no database %q", database)
		}
	default:
		if more != nil {
			return fail("a %s URL has no parameter \"addr\"", u.Scheme)
		}
	}
	if database != "" {
		db, err := strconv.ParseUint(database, 10, 31)
		if err != nil {
			return fail("database %q is not a number from 0 up", database)
		}
		end.DB = int(db)
	}
	if base == "rediss" {
		if end.TLS, err = tlsConfig(u.Hostname(), query); err != nil {
			return fail("%w", err)
		}
	}
	if unknown := slices.Sorted(maps.Keys(query)); len(unknown) > 0 {
		return fail("a %s URL has no parameter %q", u.Scheme, unknown[0])
	}
	return end, nil
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
