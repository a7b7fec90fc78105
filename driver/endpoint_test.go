package driver

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for _, tt := range []struct {
		url  string
		want Endpoint // without TLS
	}{
		{"redis://10.0.0.1", Endpoint{Network: "tcp", Addr: "10.0.0.1:6379"}},
		{"redis://10.0.0.1:", Endpoint{Network: "tcp", Addr: "10.0.0.1:6379"}},
		{"redis://10.0.0.1:6380/", Endpoint{Network: "tcp", Addr: "10.0.0.1:6380"}},
		{"REDIS://redis.example.com/3", Endpoint{Network: "tcp", Addr: "redis.example.com:6379", DB: 3}},
		{"redis://:secret@host", Endpoint{Network: "tcp", Addr: "host:6379", Password: "secret"}},
		{"redis://@host", Endpoint{Network: "tcp", Addr: "host:6379"}},
		{"redis://locker:secret@host:7000/15", Endpoint{Network: "tcp", Addr: "host:7000", Username: "locker", Password: "secret", DB: 15}},
		{"redis://locker:p%40ss%2Fw%3Ao%23r%3Fd%25@host", Endpoint{Network: "tcp", Addr: "host:6379", Username: "locker", Password: "p@ss/w:o#r?d%"}}, //nolint:gosec // nobody's password
		{"redis://lo%63ker:a+b@host", Endpoint{Network: "tcp", Addr: "host:6379", Username: "locker", Password: "a+b"}},
		{"redis://locker:one:two@three@host", Endpoint{Network: "tcp", Addr: "host:6379", Username: "locker", Password: "one:two@three"}},
		{"redis://[::1]", Endpoint{Network: "tcp", Addr: "[::1]:6379"}},
		{"redis://[2001:db8::7]:6380/1", Endpoint{Network: "tcp", Addr: "[2001:db8::7]:6380", DB: 1}},
		{"redis://[fe80::1%25eth0]", Endpoint{Network: "tcp", Addr: "[fe80::1%eth0]:6379"}},
		{"unix:///run/redis.sock", Endpoint{Network: "unix", Addr: "/run/redis.sock"}},
		{"unix:///run/redis@1.sock", Endpoint{Network: "unix", Addr: "/run/redis@1.sock"}},
		{"unix:///run/a%20socket?db=2", Endpoint{Network: "unix", Addr: "/run/a socket", DB: 2}},
		{"redis-sentinel://locker:secret@10.0.0.1/3?master=main&addr=10.0.0.2:26379&addr=[::3]:26380&sentinel_username=watch&sentinel_password=p%26q", Endpoint{
			Network: "tcp", Addr: "10.0.0.1:26379", Username: "locker", Password: "secret", DB: 3,
			Master: "main", Sentinels: []string{"10.0.0.1:26379", "10.0.0.2:26379", "[::3]:26380"}, SentinelUsername: "watch", SentinelPassword: "p&q",
		}},
		{"redis-cluster://:secret@10.0.0.1?addr=10.0.0.2:7000", Endpoint{
			Network: "tcp", Addr: "10.0.0.1:6379", Password: "secret", Seeds: []string{"10.0.0.1:6379", "10.0.0.2:7000"},
		}},
		{"unix://locker:secret@/run/redis.sock", Endpoint{Network: "unix", Addr: "/run/redis.sock", Username: "locker", Password: "secret"}},
	} {
		end, err := ParseURL(tt.url)
		if err != nil {
			t.Errorf("ParseURL(%q) = %v", tt.url, err)
			continue
		}
		if !reflect.DeepEqual(*end, tt.want) {
			t.Errorf("ParseURL(%q) = %+v, want %+v", tt.url, *end, tt.want)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, tt := range []struct {
		url, says string
	}{
		{"", "it has no scheme: want redis://"},
		{"10.0.0.1:6379", "it has no scheme"},
		{"localhost:6379", "it has no scheme"},
		{"://10.0.0.1", "cannot be parsed"},
		{"http://10.0.0.1", "node URL http://10.0.0.1: scheme"},
		{"redis://", "no host"},
		{"redis:10.0.0.1", "it has no scheme"},
		{"redis://locker@10.0.0.1", "a user without a password"},
		{"redis://locker:@10.0.0.1", "a user without a password"},
		{"redis://:6379", "no host"},
		{"redis://10.0.0.1:port", "cannot be parsed"},
		{"redis://10.0.0.1:0", "port is not from 1 to 65535"},
		{"redis://10.0.0.1:65536", "port is not from 1 to 65535"},
		{"redis://::1", "an IPv6 address in brackets"},
		{"redis://10.0.0.1:6379,10.0.0.2:6379", "one argument per URL"},
		{"redis://10.0.0.1,10.0.0.2", "one argument per URL"},
		{"redis://10.0.0.1:6379,redis://10.0.0.2:6379", "one argument per URL"},
		{"redis://10.0.0.1/shop", `database "shop" is not a number`},
		{"redis://10.0.0.1/-1", `database "-1" is not a number`},
		{"redis://10.0.0.1/+1", `database "+1" is not a number`},
		{"redis://10.0.0.1/1/2", `database "1/2" is not a number`},
		{"redis://10.0.0.1/99999999999", `database "99999999999" is not a number`},
		{"redis://10.0.0.1#1", "has no #"},
		{"redis://10.0.0.1?addr=10.0.0.2:6379", `a redis URL has no parameter "addr"`},
		{"redis-sentinel://10.0.0.1", "want the master's name with the Sentinels: ?master=name"},
		{"redis-sentinel://10.0.0.1?master=main&addr=10.0.0.2", `addr "10.0.0.2" is not host:port`},
		{"redis-sentinel://10.0.0.1?master=a&master=b", `parameter "master" has no value, or several`},
		{"redis-sentinel://?master=main", "no host"},
		{"redis-cluster://10.0.0.1/1", `a Redis Cluster has no database "1"`},
		{"redis-cluster://10.0.0.1?master=main", `a redis-cluster URL has no parameter "master"`},
		{"redis-ring://10.0.0.1", `scheme "redis-ring" is not`},
		{"redis://10.0.0.1?db=1", `a redis URL has no parameter "db"`},
		{"redis://10.0.0.1?ca=/etc/ca.pem", `a redis URL has no parameter "ca"`},
		{"rediss://10.0.0.1?skip_verify=true", `a rediss URL has no parameter "skip_verify"`},
		{"unix:///run/redis.sock?z=1&database=1", `a unix URL has no parameter "database"`},
		{"unix:///run/redis.sock?db=one", `database "one" is not a number`},
		{"unix://run/redis.sock", "want unix:///path/to/socket"},
		{"unix://", "want unix:///path/to/socket"},
		// What the standard library drops in silence would turn into trust in the
		// wrong authorities.
		{"rediss://10.0.0.1?ca=%zz", "parameters cannot be parsed"},
		{"rediss://10.0.0.1?ca=/etc/ca.pem;servername=a", "parameters cannot be parsed"},
		{"rediss://10.0.0.1?ca=", `parameter "ca" has no value, or several`},
		{"rediss://10.0.0.1?ca=/a.pem&ca=/b.pem", `parameter "ca" has no value, or several`},
	} {
		end, err := ParseURL(tt.url)
		if err == nil || end != nil || !strings.HasPrefix(err.Error(), "node URL") || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("ParseURL(%q) = %v, %v, want an error that says %s", tt.url, end, err, tt.says)
		}
	}
}

// Passwords end up in logs through errors, most easily those that were not encoded.
func TestNoErrorOfParseURLShowsThePassword(t *testing.T) {
	for _, raw := range []string{
		"http://user:secret@host",
		"redis://user:secret@host/shop",
		"redis://user:secret@host:99999",
		"redis://user:se%20cret@host/shop",
		"redis://user:secret@:6379",
		"redis://user:secret word@host",
		"redis://user:/secret@host",
		"redis://user:12/secret@host/0",
		"redis://user:12#secret@host",
		"redis://user:12?secret@host",
		"rediss://user:12?ca=secret@host",
		"redis://user:p@secret/word@host",
		"redis:/user:secret@host",
		"redis:user:secret@host",
		"user:secret@host",
		"unix://user:secret@host/run/redis.sock",
		"redis://host/0?password=secret",
		"redis://host:secret",
		"redis://secret@host",
	} {
		_, err := ParseURL(raw)
		if err == nil {
			t.Errorf("ParseURL(%q) is no error", raw)
		} else if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "cret") {
			t.Errorf("ParseURL(%q) shows the password: %v", raw, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, scheme := range []string{"redis://", "rediss://", "unix://", "http://", "redis:", "redis:/", "//", ""} {
		f.Add(scheme, "user", "", "", "host:6379/1")
	}
	f.Add("redis://", "us/er", "12/", "?", "host")
	f.Add("redis://", "", "%40", "#", "[::1]:6379")
	f.Add("rediss://", "u@h?ca=", ":", "", "host?ca=/none")
	f.Add("unix://", "u", "[", "]", "/run/redis.sock?db=1")
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		const secret = "S3cr3t"
		raw := scheme + user + ":" + before + secret + after + "@" + rest
		if strings.Count(raw, secret) > 1 {
			return // it is not the password alone
		}
		end, err := ParseURL(raw)
		if err != nil {
			if end != nil || strings.Contains(strings.ToLower(err.Error()), strings.ToLower(secret)) {
				t.Errorf("ParseURL(%q) = %v, %v, want the error alone, without the password", raw, end, err)
			}
			return
		}
		if end.Network != "tcp" && end.Network != "unix" || end.Addr == "" || end.DB < 0 {
			t.Errorf("ParseURL(%q) = %+v, which nobody can dial", raw, end)
		}
		if u, err := url.Parse(raw); err != nil || end.Username != u.User.Username() {
			t.Errorf("ParseURL(%q) has the user %q, net/url says otherwise", raw, end.Username)
		}
	})
}
