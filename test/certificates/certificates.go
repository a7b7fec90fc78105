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
	authority     *authority
}

// An authority signs certificates. It is another one after each Renew.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New writes certificates that are valid for an hour, for these names alone or, without
// any, for 127.0.0.1.
func New(t testing.TB, names ...string) Files {
	t.Helper()
	dir := t.TempDir()
	c := Files{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), names, new(authority)}
	c.Renew(t, time.Hour)
	return c
}

// Renew writes new ones into the files, which are valid for so long.
func (c Files) Renew(t testing.TB, valid time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(t, err)
	cert := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "authority " + serial.String() + " of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	must(t, err)
	*c.authority = authority{cert, key}
	write(t, c.CA, "CERTIFICATE", der)
	c.Issue(t, c.Cert, c.Key, valid)
}

// Issue writes a certificate of the authority and its key, for the same names, which is valid until
// then from now on; it has ended where that is negative.
func (c Files) Issue(t testing.TB, certFile, keyFile string, valid time.Duration) {
	t.Helper()
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "server of a test"},
		NotBefore: now.Add(min(valid, 0) - time.Hour), NotAfter: now.Add(valid), DNSNames: c.names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if c.names == nil {
		cert.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, cert, c.authority.cert, &key.PublicKey, c.authority.key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	write(t, certFile, "CERTIFICATE", der)
	write(t, keyFile, "PRIVATE KEY", keyDER)
}

// Client is Issue into new files of a client's.
func (c Files) Client(t testing.TB, valid time.Duration) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	c.Issue(t, certFile, keyFile, valid)
	return certFile, keyFile
}

// write puts a file in the place of the old one, as those do who renew certificates.
func write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	must(t, os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	must(t, os.Rename(file+".new", file))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Config returns the lines of a configuration that serve TLS at a port.
func (c Files) Config(port string) []string {
	return []string{"tls-port " + port, "tls-auth-clients no", "tls-cert-file " + c.Cert, "tls-key-file " + c.Key, "tls-ca-cert-file " + c.CA}
}
