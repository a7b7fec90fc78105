package framing

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
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

func say(t *testing.T, conn net.Conn, words string) {
	t.Helper()
	if _, err := conn.Write([]byte(words)); err != nil {
		t.Fatalf("Write(%q) = %v", words, err)
	}
}

func TestConnGivesWhatIsRightAndThenAnError(t *testing.T) {
	client, server := dial(t)
	c := Check(client)
	say(t, c, ask("GET a", "GET b"))
	say(t, server, "+OK\r\n$-5\r\n+OK\r\n")
	got, err := io.ReadAll(c)
	if string(got) != "+OK\r\n$-" || !errors.Is(err, errSyntax) {
		t.Errorf("the client read %q, %v, want the first reply and an error", got, err)
	}
	if _, err := c.Write([]byte(ask("GET c"))); !errors.Is(err, errSyntax) || errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Write behind that, while a reply is owed = %v, want the error, which is not ErrNotSent", err)
	}
}

func TestConnRefusesAReplyTooMany(t *testing.T) {
	client, server := dial(t)
	c := Check(client)
	say(t, c, ask("GET a"))
	say(t, server, "+OK\r\n+OK\r\n")
	got, err := io.ReadAll(c)
	if string(got) != "+OK\r\n" || !errors.Is(err, errUnasked) {
		t.Errorf("the client read %q, %v, want one reply and an error", got, err)
	}
	if _, err := c.Write([]byte(ask("GET b"))); !errors.Is(err, errUnasked) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Write behind that = %v, want that nothing was sent", err)
	}
}

func TestCheckBetweenSeesWhatWaitsToBeRead(t *testing.T) {
	client, server := dial(t)
	c := CheckBetween(client)
	say(t, c, ask("GET a"))
	say(t, server, "+OK\r\n")
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "+OK\r\n" {
		t.Fatalf("the client read %q, %v, want the reply", buf, err)
	}
	say(t, server, "+stale\r\n")
	for !c.waiting() {
		runtime.Gosched() // until it has arrived
	}
	if n, err := c.Write([]byte(ask("GET b"))); n != 0 || !errors.Is(err, errUnasked) || !errors.Is(err, driver.ErrNotSent) {
		t.Errorf("Write = %d, %v, want that nothing was sent", n, err)
	}
	_ = c.Close()
	if got, _ := io.ReadAll(server); !bytes.Equal(got, []byte(ask("GET a"))) {
		t.Errorf("the server received %q, want the first command alone", got)
	}
}

func TestConnAllocatesNextToNothing(t *testing.T) {
	client, server := dial(t)
	c := CheckBetween(client)
	command, reply, buf := []byte(ask("GET a", "GET b")), []byte("+OK\r\n$1\r\nb\r\n"), make([]byte, 4096)
	allocs := testing.AllocsPerRun(100, func() {
		_, _ = c.Write(command)
		_, _ = server.Read(buf)
		_, _ = server.Write(reply)
		_, _ = c.Read(buf)
	})
	if c.fault != nil || !c.owed.settled() || allocs > 1 { // the address that the system may tell
		t.Errorf("a round trip makes %v allocations, and ends with %v, want at most one", allocs, c.fault)
	}
}

// Subscribers write at once, and the replies come in the order of what was written.
func TestConnNotesInTheOrderOfWriting(t *testing.T) {
	client, server := dial(t)
	c := Check(client)
	const each = 2000
	var writers sync.WaitGroup
	for _, command := range []string{"SUBSCRIBE a", "UNSUBSCRIBE a"} {
		writers.Go(func() {
			for range each {
				_, _ = c.Write([]byte(ask(command)))
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
			_, _ = server.Write([]byte(ask(strings.ToLower(strings.TrimPrefix(strings.TrimSuffix(command, "+a"), "*2+")) + " a 1")))
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
	if c := CheckBetween(Check(client)); c.NetConn() != client || c.raw == nil {
		t.Errorf("a connection that is checked twice is over %T, want the socket", c.NetConn())
	}
}

func BenchmarkConn(b *testing.B) {
	c := Check(nil)
	command, reply := []byte(ask("GET a", "GET b")), []byte("+OK\r\n$1\r\nb\r\n")
	for b.Loop() {
		_, _ = c.out.scan(command)
		_, _ = c.in.scan(reply)
	}
}
