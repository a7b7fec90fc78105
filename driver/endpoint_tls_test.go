package driver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// identity writes a certificate of the given name that is its own authority, and
// returns the files' names.
func identity(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der},
		key:  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// handshake connects a client to a server, and returns the client's error and whom
// the server has seen.
func handshake(t *testing.T, client *tls.Config, cert, key string) (string, error) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(cert, key)
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
	cert, key := identity(t, "redis.example.com")
	mine, mineKey := identity(t, "locker")
	for _, tt := range []struct {
		url     string
		visitor string
		fails   string
	}{
		{url: "rediss://redis.example.com?ca=" + cert},
		{url: "rediss://10.0.0.1:6380/2?servername=redis.example.com&ca=" + cert},
		{url: "rediss://redis.example.com?ca=" + cert + "&cert=" + mine + "&key=" + mineKey, visitor: "locker"},
		{url: "rediss://redis.example.com", fails: "unknown authority"},
		{url: "rediss://redis.example.com?ca=" + mine, fails: "unknown authority"},
		{url: "rediss://10.0.0.1?ca=" + cert, fails: "10.0.0.1"},
		{url: "rediss://redis.example.com?servername=other.example.com&ca=" + cert, fails: "other.example.com"},
	} {
		end, err := ParseURL(tt.url)
		if err != nil {
			t.Errorf("ParseURL(%q) = %v", tt.url, err)
			continue
		}
		visitor, err := handshake(t, end.TLS, cert, key)
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
	cert, key := identity(t, "locker")
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, tt := range []struct {
		query, says string
	}{
		{"ca=" + missing, "ca: open " + missing},
		{"ca=" + key, "ca: " + key + " holds no certificate in PEM form"},
		{"cert=" + cert, "cert and key go together"},
		{"key=" + key, "cert and key go together"},
		{"cert=" + cert + "&key=" + missing, "cert and key: open " + missing},
		{"cert=" + key + "&key=" + cert, "cert and key: "},
	} {
		_, err := ParseURL("rediss://locker:secret@10.0.0.1?" + tt.query)
		if err == nil || !strings.Contains(err.Error(), "node URL rediss://10.0.0.1: "+tt.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL with %s = %v, want an error that says %q", tt.query, err, tt.says)
		}
	}
}
