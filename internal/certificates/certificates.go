// Package certificates writes certificates for the tests of what speaks TLS.
package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are files in PEM form: an authority, and a server's certificate with its key.
type Files struct {
	CA, Cert, Key string
	names         []string // of the server; none: 127.0.0.1
}

// New writes certificates that are valid for an hour, for these names alone or, without
// any, for 127.0.0.1.
func New(t testing.TB, names ...string) Files {
	t.Helper()
	dir := t.TempDir()
	c := Files{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), names}
	c.Renew(t, time.Hour)
	return c
}

// Renew writes new ones into the files, which are valid for so long.
func (c Files) Renew(t testing.TB, valid time.Duration) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(file, kind string, der []byte) {
		must(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server of a test"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter, DNSNames: c.names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if c.names == nil {
		server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	must(err)
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, &serverKey.PublicKey, authorityKey)
	must(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	must(err)
	write(c.CA, "CERTIFICATE", authorityDER)
	write(c.Cert, "CERTIFICATE", serverDER)
	write(c.Key, "PRIVATE KEY", keyDER)
}

// Config returns the lines of a configuration that serve TLS at a port.
func (c Files) Config(port string) []string {
	return []string{"tls-port " + port, "tls-auth-clients no", "tls-cert-file " + c.Cert, "tls-key-file " + c.Key, "tls-ca-cert-file " + c.CA}
}
