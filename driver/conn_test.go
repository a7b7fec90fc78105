package driver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/driver/internal/framing"
)

// dial returns both ends of a connection over the loopback.
func dial(t *testing.T) (client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening on the loopback does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	client, err = net.Dial("tcp", listener.Addr().String()) //nolint:noctx // the loopback does not wait
	if err != nil {
		t.Fatal(err)
	}
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return client, server
}

// sent is what a client sends for commands: "SUBSCRIBE a".
func sent(commands ...string) string {
	var raw strings.Builder
	for _, command := range commands {
		args := strings.Fields(command)
		fmt.Fprintf(&raw, "*%d\r\n", len(args))
		for _, arg := range args {
			raw.WriteString("+" + arg + "\r\n")
		}
	}
	return raw.String()
}

func write(t *testing.T, conn net.Conn, words string) {
	t.Helper()
	if _, err := conn.Write([]byte(words)); err != nil {
		t.Fatalf("Write(%q) = %v", words, err)
	}
}

func TestConnGivesWhatIsRightAndThenAnError(t *testing.T) {
	client, server := dial(t)
	c := CheckReplies(client)
	write(t, c, sent("GET a", "GET b"))
	write(t, server, "+OK\r\n$-5\r\n+OK\r\n")
	got, err := io.ReadAll(c)
	if string(got) != "+OK\r\n$-" || !errors.Is(err, ErrProtocol) {
		t.Errorf("the client read %q, %v, want the first reply and an error", got, err)
	}
	if _, err := c.Write([]byte(sent("GET c"))); !errors.Is(err, ErrProtocol) || errors.Is(err, ErrNotSent) {
		t.Errorf("Write behind that, while a reply is owed = %v, want the error, which is not ErrNotSent", err)
	}
}

func TestConnRefusesAReplyTooMany(t *testing.T) {
	client, server := dial(t)
	c := CheckReplies(client)
	write(t, c, sent("GET a"))
	write(t, server, "+OK\r\n+OK\r\n")
	got, err := io.ReadAll(c)
	if string(got) != "+OK\r\n" || !errors.Is(err, framing.ErrUnasked) {
		t.Errorf("the client read %q, %v, want one reply and an error", got, err)
	}
	if _, err := c.Write([]byte(sent("GET b"))); !errors.Is(err, framing.ErrUnasked) || !errors.Is(err, ErrNotSent) {
		t.Errorf("Write behind that = %v, want that nothing was sent", err)
	}
}

func TestAStrictConnectionSeesWhatWaitsToBeRead(t *testing.T) {
	client, server := dial(t)
	c := CheckReplies(client).Strictly()
	write(t, c, sent("GET a"))
	write(t, server, "+OK\r\n")
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "+OK\r\n" {
		t.Fatalf("the client read %q, %v, want the reply", buf, err)
	}
	write(t, server, "+stale\r\n")
	arrive(c)
	if n, err := c.Write([]byte(sent("GET b"))); n != 0 || !errors.Is(err, framing.ErrUnasked) || !errors.Is(err, ErrNotSent) {
		t.Errorf("Write = %d, %v, want that nothing was sent", n, err)
	}
	_ = c.Close()
	if got, _ := io.ReadAll(server); !bytes.Equal(got, []byte(sent("GET a"))) {
		t.Errorf("the server received %q, want the first command alone", got)
	}
}

func TestConnAllocatesNextToNothing(t *testing.T) {
	client, server := dial(t)
	c := CheckReplies(client).Strictly()
	command, reply, buf := []byte(sent("GET a", "GET b")), []byte("+OK\r\n$1\r\nb\r\n"), make([]byte, 4096)
	allocs := testing.AllocsPerRun(100, func() {
		_, _ = c.Write(command)
		_, _ = server.Read(buf)
		_, _ = server.Write(reply)
		_, _ = c.Read(buf)
	})
	if c.fault != nil || !c.exchange.Idle() || allocs > 1 { // the address that the system may tell
		t.Errorf("a round trip makes %v allocations, and ends with %v, want at most one", allocs, c.fault)
	}
}

// Subscribers write at once, and the replies come in the order of what was written.
func TestConnNotesInTheOrderOfWriting(t *testing.T) {
	client, server := dial(t)
	c := CheckReplies(client)
	const each = 2000
	var writers sync.WaitGroup
	for _, command := range []string{"SUBSCRIBE a", "UNSUBSCRIBE a"} {
		writers.Go(func() {
			for range each {
				_, _ = c.Write([]byte(sent(command)))
			}
		})
	}
	go func() { // answers as Redis does
		in := bufio.NewReader(server)
		for range 2 * each {
			var command string
			for range 3 {
				word, _ := in.ReadString('\n')
				command = strings.TrimSpace(command + word)
			}
			_, _ = server.Write([]byte(sent(strings.ToLower(strings.TrimPrefix(strings.TrimSuffix(command, "+a"), "*2+")) + " a 1")))
		}
		_ = server.Close()
	}()
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("Read = %v, want no error", err)
	}
	writers.Wait()
}

func TestCheckDoesNotCheckTwice(t *testing.T) {
	client, _ := dial(t)
	if c := CheckReplies(CheckReplies(client)).Strictly(); c.NetConn() != client || c.raw == nil {
		t.Errorf("a connection that is checked twice is over %T, want the socket", c.NetConn())
	}
}
