package driver

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/driver/internal/framing"
	"github.com/quorumlock/quorumlock/internal/alert"
	"github.com/quorumlock/quorumlock/test/certificates"
)

// Types of records in TLS 1.3.
const (
	handshakeRecord   = 22
	applicationRecord = 23
)

// ticket is a NewSessionTicket message, as a handshake record holds it.
const ticket = "\x04\x00\x00\x11" + "\x00\x00\x0e\x10" + "\x00\x00\x00\x00" + "\x01\x00" + "\x00\x03abc" + "\x00\x00"

// sealer is the server's end of a connection over TLS 1.3. It seals its records itself,
// because crypto/tls sends session tickets in the handshake only.
type sealer struct {
	net.Conn
	aead cipher.AEAD
	iv   []byte
	sent uint64
}

// dialTLS returns both ends of a connection over TLS 1.3.
func dialTLS(t *testing.T) (client *tls.Conn, server *sealer) {
	t.Helper()
	files := certificates.New(t)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	below, socket := dial(t)
	client = tls.Client(below, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // the loopback
	var keys bytes.Buffer
	handshake := tls.Server(socket, &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, KeyLogWriter: &keys,
	})
	done := make(chan error)
	go func() { done <- client.HandshakeContext(t.Context()) }()
	if err := errors.Join(handshake.HandshakeContext(t.Context()), <-done); err != nil {
		t.Fatal(err)
	}
	if handshake.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("without AES in hardware crypto/tls prefers another cipher")
	}
	_, line, _ := strings.Cut(keys.String(), "SERVER_TRAFFIC_SECRET_0 ")
	secret, err := hex.DecodeString(strings.Fields(line)[1])
	if err != nil {
		t.Fatal(err)
	}
	derive := func(name string, size int) []byte {
		label := string([]byte{0, byte(size), byte(len("tls13 " + name))}) + "tls13 " + name + "\x00" //nolint:gosec // below 256
		derived, err := hkdf.Expand(sha256.New, secret, label, size)
		if err != nil {
			t.Fatal(err)
		}
		return derived
	}
	block, err := aes.NewCipher(derive("key", 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return client, &sealer{Conn: socket, aead: aead, iv: derive("iv", 12)}
}

// seal returns a record.
func (s *sealer) seal(kind byte, content string) string {
	nonce := bytes.Clone(s.iv)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^s.sent)
	s.sent++
	header := []byte{applicationRecord, 3, 3, 0, byte(len(content) + 1 + s.aead.Overhead())} //nolint:gosec // below 256
	return string(s.aead.Seal(header, nonce, append([]byte(content), kind), header))
}

// Servers may send session tickets at any time, and the client is at rest then.
func TestALateSessionTicketIsNoUnaskedReply(t *testing.T) {
	for name, arrival := range map[string]func(t *testing.T, server *sealer, arrived func()){
		"whole": func(t *testing.T, server *sealer, arrived func()) {
			write(t, server, server.seal(handshakeRecord, ticket))
			arrived()
		},
		"twice": func(t *testing.T, server *sealer, arrived func()) {
			write(t, server, server.seal(handshakeRecord, ticket)+server.seal(handshakeRecord, ticket))
			arrived()
		},
		"in part": func(t *testing.T, server *sealer, arrived func()) {
			record := server.seal(handshakeRecord, ticket)
			write(t, server, record[:9])
			arrived()
			write(t, server, record[9:])
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := dialTLS(t)
			c := CheckReplies(client).Strictly()
			for range 3 {
				arrival(t, server, func() { arrive(c) })
				write(t, c, sent("GET a"))
				write(t, server, server.seal(applicationRecord, "+OK\r\n"))
				buf := make([]byte, 5)
				if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "+OK\r\n" {
					t.Fatalf("behind a session ticket the client read %q, %v, want the reply", buf, err)
				}
			}
		})
	}
}

func TestAStrictConnectionSeesWhatWaitsOverTLS(t *testing.T) {
	for name, behind := range map[string]string{"alone": "", "behind a ticket": ticket} {
		client, server := dialTLS(t)
		c := CheckReplies(client).Strictly()
		record := ""
		if behind != "" {
			record = server.seal(handshakeRecord, behind)
		}
		write(t, server, record+server.seal(applicationRecord, "+stale\r\n"))
		arrive(c)
		if n, err := c.Write([]byte(sent("GET b"))); n != 0 || !errors.Is(err, framing.ErrUnasked) || !errors.Is(err, ErrNotSent) {
			t.Errorf("an unasked reply %s: Write = %d, %v, want that nothing was sent", name, n, err)
		}
	}
}

func TestAStrictConnectionSeesThatTheServerHasGone(t *testing.T) {
	plain, socket := dial(t)
	secure, server := dialTLS(t)
	for client, server := range map[net.Conn]net.Conn{plain: socket, secure: server} {
		c := CheckReplies(client).Strictly()
		_ = server.Close()
		arrive(c)
		if n, err := c.Write([]byte(sent("GET b"))); n != 0 || !errors.Is(err, io.EOF) || !errors.Is(err, ErrNotSent) || errors.Is(err, ErrProtocol) {
			t.Errorf("over %T Write to a server that has gone = %d, %v, want EOF, and that nothing was sent", client, n, err)
		}
	}
}

// A server that does not take the client's certificate says so when the client takes the handshake for
// done, and hangs up: the client's first write may be the one that fails.
func TestAnAlertIsToldThoughAWriteFailsFirst(t *testing.T) {
	const certificateRequired, alertRecord = "\x02\x74", 21
	for _, reads := range []bool{false, true} {
		client, server := dialTLS(t)
		c := CheckReplies(client)
		if err := client.NetConn().(*net.TCPConn).CloseWrite(); err != nil { // from now on writes fail
			t.Fatal(err)
		}
		read := make(chan error, 1)
		if reads {
			go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
			for reading := false; !reading; runtime.Gosched() {
				c.mu.Lock()
				reading = c.reading
				c.mu.Unlock()
			}
		}
		write(t, server, server.seal(alertRecord, certificateRequired))
		if !reads {
			arrive(CheckReplies(client).Strictly())
		}
		if _, err := c.Write([]byte(sent("GET a"))); alert.Of(err) != "certificate required" {
			t.Errorf("beside a reader (%t) Write = %v, want the alert that the server has sent", reads, err)
		}
		if reads {
			if err := <-read; alert.Of(err) != "certificate required" {
				t.Errorf("Read = %v, want the alert", err)
			}
		}
	}
}

// arrive waits until something waits to be read.
func arrive(c *Conn) {
	for !c.waits() {
		runtime.Gosched()
	}
}
