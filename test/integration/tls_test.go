package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/internal/redisserver"
	"github.com/quorumlock/quorumlock/redlock"
)

// Client and server may disagree about TLS in several ways. The error says what mends it, and
// nobody waits for a certificate that is not trusted.
func TestTLS(t *testing.T) {
	onProcesses(t, "", func(t *testing.T, c client) {
		cert, key := certificate(t, "locks.example")
		port, err := redisserver.FreePort()
		must(t, err)
		p := process(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
		secure := fmt.Sprintf("127.0.0.1:%d", port)
		for _, tt := range []struct{ url, says string }{
			{"rediss://" + secure + "?ca=" + cert + "&servername=locks.example", ""},
			{"rediss://" + secure + "?ca=" + cert, "servername="},
			{"rediss://" + secure + "?servername=locks.example", "?ca=FILE"},
			{"rediss://" + p.Addr() + "?ca=" + cert, "or not (redis://)"},
			{"redis://" + secure, "rediss://"},
		} {
			nodes, err := c.open(tt.url)
			must(t, err)
			locker, err := redlock.New(nodes, redlock.WithNodeTimeout(generous))
			must(t, err)
			began := time.Now()
			lock, err := locker.Acquire(t.Context(), t.Name(), redlock.WithMaxWait(2*generous))
			took := time.Since(began)
			switch {
			case tt.says == "" && err != nil:
				t.Errorf("%s: Acquire = %v", tt.url, err)
			case tt.says == "":
				must(t, lock.Release(t.Context()))
			case !errors.Is(err, redlock.ErrNoQuorum) || !mentions(err, tt.says):
				t.Errorf("%s: Acquire = %v, want ErrNoQuorum that says %q", tt.url, err, tt.says)
			case strings.HasPrefix(tt.url, "rediss://"+secure) && took > generous:
				t.Errorf("%s: Acquire waited %v for what waiting cannot mend: %v", tt.url, took, err)
			}
			must(t, locker.Close())
		}
	})
}

// An operator sees in CLIENT LIST whose connections they are.
func TestConnectionsHaveAName(t *testing.T) {
	onProcesses(t, "", func(t *testing.T, c client) {
		p := process(t)
		nodes, err := c.open("redis://" + p.Addr())
		must(t, err)
		locker, err := redlock.New(nodes, redlock.WithNodeTimeout(generous))
		must(t, err)
		defer func() { must(t, locker.Close()) }()
		must(t, locker.Check(t.Context()))
		list, err := look(t, p).ClientList(t.Context()).Result()
		must(t, err)
		if !mentions(errors.New(list), "name="+driver.ClientName) {
			t.Errorf("CLIENT LIST shows no connection with the name %s: %s", driver.ClientName, list)
		}
	})
}

// certificate makes a certificate that signs itself, and returns it and its key as files.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	write := func(file, kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), file)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}
