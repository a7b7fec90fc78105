package driver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"sync"
)

// tlsConfig makes the configuration of a URL with TLS. The files that the query names are read now,
// and again at each handshake if they have changed: certificates end, and authorities are replaced,
// while the process lives.
func tlsConfig(host string, query url.Values) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: orDefault(take(query, "servername"), host)}
	if ca := take(query, "ca"); ca != "" {
		authorities, err := watch(func() (*x509.CertPool, error) { return readAuthorities(ca) }, ca)
		if err != nil {
			return nil, err
		}
		// RootCAs would be those of now. Package tls verifies nothing itself, and this all.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, authorities.latest(), config.ServerName)
		}
	}
	cert, key := take(query, "cert"), take(query, "key")
	if (cert == "") != (key == "") {
		return nil, errors.New("cert and key go together")
	}
	if cert != "" {
		pair, err := watch(func() (*tls.Certificate, error) { return readPair(cert, key) }, cert, key)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.latest(), nil }
	}
	return config, nil
}

func readAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // the one who may connect says whom to trust
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca: %s holds no certificate in PEM form", file)
	}
	return pool, nil
}

func readPair(certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := os.ReadFile(certFile) //nolint:gosec // likewise
	if err != nil {
		return nil, fmt.Errorf("cert: %w", err)
	}
	key, err := os.ReadFile(keyFile) //nolint:gosec // likewise
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cert %s and key %s: %w", certFile, keyFile, err)
	}
	return &pair, nil
}

// verify is what package tls does where the authorities are in its configuration.
func verify(chain []*x509.Certificate, authorities *x509.CertPool, name string) error {
	options := x509.VerifyOptions{Roots: authorities, DNSName: name, Intermediates: x509.NewCertPool()}
	for _, cert := range chain[1:] { // a server without a certificate is refused before
		options.Intermediates.AddCert(cert)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}

// watched is what files hold. It is safe for concurrent use.
type watched[T any] struct {
	read  func() (T, error)
	files []string

	mu    sync.Mutex
	seen  []fs.FileInfo // as the files were when value was read
	value T
}

func watch[T any](read func() (T, error), files ...string) (*watched[T], error) {
	w := &watched[T]{read: read, files: files, seen: make([]fs.FileInfo, len(files))}
	_, err := w.look()
	return w, err
}

// latest returns what the files hold now; or, while one is gone or half written, what they held last.
func (w *watched[T]) latest() T {
	value, _ := w.look()
	return value
}

func (w *watched[T]) look() (T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, same := make([]fs.FileInfo, len(w.files)), true
	for i, file := range w.files {
		info, err := os.Stat(file) // before it is read: what changes meanwhile is read again
		before := w.seen[i]
		same = same && err == nil && before != nil && os.SameFile(before, info) && before.ModTime().Equal(info.ModTime()) && before.Size() == info.Size()
		now[i] = info
	}
	if same {
		return w.value, nil
	}
	value, err := w.read()
	if err == nil {
		w.value, w.seen = value, now
	}
	return w.value, err
}
