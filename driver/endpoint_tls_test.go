package driver

import (
	"crypto/tls"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/certificates"
)

// handshake connects a client to a server, and returns the client's error and whom
// the server has seen.
func handshake(t *testing.T, client *tls.Config, files certificates.Files) (string, error) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	seen := make(chan string, 1)
	go func() {
		defer close(seen)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		server := conn.(*tls.Conn)
		if server.HandshakeContext(t.Context()) != nil {
			return // the client's error says why
		}
		if certs := server.ConnectionState().PeerCertificates; len(certs) > 0 {
			seen <- certs[0].Subject.CommonName
		}
	}()
	conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return <-seen, nil
}

func TestTheURLSaysWhomToTrust(t *testing.T) {
	files, mine := certificates.New(t, "redis.example.com"), certificates.New(t)
	for _, tt := range []struct {
		url     string
		visitor string
		fails   string
	}{
		{url: "rediss://redis.example.com?ca=" + files.CA},
		{url: "rediss://10.0.0.1:6380/2?servername=redis.example.com&ca=" + files.CA},
		{url: "rediss://redis.example.com?ca=" + files.CA + "&cert=" + mine.Cert + "&key=" + mine.Key, visitor: "server of a test"},
		{url: "rediss://redis.example.com", fails: "unknown authority"},
		{url: "rediss://redis.example.com?ca=" + mine.CA, fails: "unknown authority"},
		{url: "rediss://10.0.0.1?ca=" + files.CA, fails: "10.0.0.1"},
		{url: "rediss://redis.example.com?servername=other.example.com&ca=" + files.CA, fails: "other.example.com"},
	} {
		end, err := ParseURL(tt.url)
		if err != nil {
			t.Errorf("ParseURL(%q) = %v", tt.url, err)
			continue
		}
		visitor, err := handshake(t, end.TLS, files)
		switch {
		case tt.fails == "" && err != nil:
			t.Errorf("%s: the handshake fails: %v", tt.url, err)
		case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
			t.Errorf("%s: the handshake ends with %v, want an error about %q", tt.url, err, tt.fails)
		case visitor != tt.visitor:
			t.Errorf("%s: the server has seen the client %q, want %q", tt.url, visitor, tt.visitor)
		}
	}
}

func TestFilesThatTheURLNamesAreReadAtOnce(t *testing.T) {
	files, other := certificates.New(t), certificates.New(t)
	cert, key := files.Cert, files.Key
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, tt := range []struct {
		query, says string
	}{
		{"ca=" + missing, "ca: open " + missing},
		{"ca=" + key, "ca: " + key + " holds no certificate in PEM form"},
		{"cert=" + cert, "cert and key go together"},
		{"key=" + key, "cert and key go together"},
		{"cert=" + missing + "&key=" + key, "cert: open " + missing},
		{"cert=" + cert + "&key=" + missing, "key: open " + missing},
		{"cert=" + key + "&key=" + cert, "cert " + key + " and key " + cert + ": "},
		{"cert=" + cert + "&key=" + other.Key, "cert " + cert + " and key " + other.Key + ": "},
	} {
		_, err := ParseURL("rediss://locker:secret@10.0.0.1?" + tt.query)
		if err == nil || !strings.Contains(err.Error(), "node URL rediss://10.0.0.1: "+tt.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL with %s = %v, want an error that says %q", tt.query, err, tt.says)
		}
	}
}

// A process lives longer than its certificates and authorities.
func TestFilesThatTheURLNamesAreReadAgainWhenTheyChange(t *testing.T) {
	files := certificates.New(t, "redis.example.com")
	cert, key := files.Client(t, time.Hour)
	end, err := ParseURL("rediss://redis.example.com?ca=" + files.CA + "&cert=" + cert + "&key=" + key)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() *big.Int {
		t.Helper()
		pair, err := end.TLS.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf.SerialNumber
	}
	trusts := func(want bool) {
		t.Helper()
		if _, err := handshake(t, end.TLS, files); want != (err == nil) {
			t.Errorf("the handshake = %v, want that the server is trusted: %t", err, want)
		}
	}
	trusts(true)
	first := serial()
	files.Issue(t, cert, key, time.Hour)
	second := serial()
	if second.Cmp(first) == 0 {
		t.Error("the client shows the certificate of before, though its files hold another one")
	}

	// While a file is half written, or gone, the last good one serves.
	whole, err := os.ReadFile(cert) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(cert, whole[:len(whole)/2], 0o600) }, //nolint:gosec // likewise
		func() error { return os.WriteFile(cert, nil, 0o600) },
		func() error { return os.Remove(cert) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if serial().Cmp(second) != 0 {
			t.Error("the client does not show the last good certificate while a file is not whole")
		}
	}
	files.Issue(t, cert, key, time.Hour)
	if serial().Cmp(second) == 0 {
		t.Error("the client shows the certificate of before a file was not whole")
	}

	// Of another authority.
	trusted, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	files.Renew(t, time.Hour)
	trusts(true)
	replaced, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.CA, trusted, 0o600); err != nil { //nolint:gosec // likewise
		t.Fatal(err)
	}
	trusts(false)
	if err := os.WriteFile(files.CA, replaced[:len(replaced)/2], 0o600); err != nil { //nolint:gosec // likewise
		t.Fatal(err)
	}
	trusts(false)
	if err := os.WriteFile(files.CA, replaced, 0o600); err != nil { //nolint:gosec // likewise
		t.Fatal(err)
	}
	trusts(true)
}
