package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
)

// echo answers every line with itself. It sends the lines that it has got to seen.
func echo(t *testing.T) (addr string, seen <-chan string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	lines := make(chan string, 1024)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				scanner := bufio.NewScanner(conn)
				for scanner.Scan() {
					lines <- scanner.Text()
					if _, err := io.WriteString(conn, scanner.Text()+"\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// through starts a proxy before an echo server and dials it.
func through(t *testing.T) (*Proxy, *client, <-chan string) {
	t.Helper()
	target, seen := echo(t)
	p, err := New(target)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p, dial(t, p), seen
}

type client struct {
	net.Conn
	t      *testing.T
	reader *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, t, bufio.NewReader(conn)}
}

func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatalf("sending %q: %v", line, err)
	}
}

func (c *client) receive(patience time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	line, err := c.reader.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (c *client) expect(want string) {
	c.t.Helper()
	if got, err := c.receive(patient.Guard); got != want || err != nil {
		c.t.Fatalf("received %q, %v, want %q", got, err, want)
	}
}

// silence is how long a test listens to be sure that nothing comes.
const silence = 30 * time.Millisecond

func (c *client) expectSilence() {
	c.t.Helper()
	if got, err := c.receive(silence); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("received %q, %v, want silence", got, err)
	}
}

func TestForward(t *testing.T) {
	_, c, _ := through(t)
	long := strings.Repeat("x", 60_000) // several chunks
	for _, line := range []string{"one", "two", long, "three"} {
		c.send(line)
		c.expect(line)
	}
}

func TestDelay(t *testing.T) {
	p, c, _ := through(t)
	patient.AtScales(t, func(scale time.Duration) error {
		each := scale * 200 * time.Millisecond
		p.Delay(each)
		start := time.Now()
		for range 10 {
			c.send("ping") // together: they are delayed together
		}
		for range 10 {
			c.expect("ping")
		}
		if took := time.Since(start); took < 2*each || took > 10*each { //nolint:forbidigo // at growing scales
			return fmt.Errorf("10 pings at once took %v with %v each way, want a little over %v", took, each, 2*each)
		}
		return nil
	})
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		direction Direction
		arrives   bool // at the server
	}{
		{Both, false},
		{Requests, false},
		{Replies, true},
	} {
		p, c, seen := through(t)
		c.send("before")
		c.expect("before")
		<-seen
		p.Cut(tt.direction)
		c.send("during")
		c.expectSilence()
		if tt.arrives {
			if line := <-seen; line != "during" {
				t.Errorf("cut %d: the server has got %q", tt.direction, line)
			}
		} else if len(seen) > 0 {
			t.Errorf("cut %d: the server has got %q", tt.direction, <-seen)
		}
		p.Mend()
		c.expect("during")
	}
}

func TestReset(t *testing.T) {
	p, c, _ := through(t)
	c.send("before")
	c.expect("before")
	p.Cut(Both)
	c.send("lost")
	p.Reset()
	if got, err := c.receive(patient.Guard); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after Reset: received %q, %v, want a reset", got, err)
	}
	p.Mend()
	c = dial(t, p)
	c.send("after")
	c.expect("after")
}

func TestTruncate(t *testing.T) {
	p, c, seen := through(t)
	p.Truncate(3)
	c.send("hello")
	got, err := c.receive(patient.Guard)
	if got != "hel" || !errors.Is(err, io.EOF) {
		t.Errorf("received %q, %v, want the first 3 bytes and the end", got, err)
	}
	if line := <-seen; line != "hello" {
		t.Errorf("the server has got %q, want the whole line", line)
	}
	c = dial(t, p)
	c.send("whole again")
	c.expect("whole again")
}

func TestRefuse(t *testing.T) {
	p, c, _ := through(t)
	must(t, p.Refuse())
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial: %v, want a refusal", err)
	}
	if _, err := c.receive(patient.Guard); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an open connection: %v, want its end", err)
	}
	must(t, p.Accept())
	c = dial(t, p)
	c.send("again")
	c.expect("again")
}

func TestServerGone(t *testing.T) {
	p, err := New("127.0.0.1:1")
	must(t, err)
	defer func() { _ = p.Close() }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	if err == nil { // the reset may come as early as in the dial
		defer func() { _ = conn.Close() }()
		_ = conn.SetReadDeadline(time.Now().Add(patient.Guard))
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("nobody behind the proxy: %v, want a reset", err)
	}
}

func TestMain(m *testing.M) { leak.Main(m) }

// requests writes commands of one word of three letters each.
func requests(words ...string) string {
	var text strings.Builder
	for _, word := range words {
		text.WriteString(strings.Join(lines(word), "\r\n") + "\r\n")
	}
	return text.String()
}

// lines are those of commands of one word.
func lines(words ...string) (lines []string) {
	for _, word := range words {
		lines = append(lines, "*1", "$3", word)
	}
	return lines
}

func TestInterruptHappensBetweenTwoCommandsOfABatch(t *testing.T) {
	batch := []string{"one", "two", "six"}
	for ahead := range len(batch) + 1 {
		p, c, seen := through(t)
		var before []string
		end := p.Interrupt(func(commands [][]string) int {
			if commands[0][0] != batch[0] {
				return -1
			}
			return ahead
		}, func() {
			for range lines(batch[:ahead]...) {
				before = append(before, <-seen)
			}
			if len(seen) > 0 {
				t.Errorf("%d commands go ahead: the server has more", ahead)
			}
		})
		ask := func(commands ...string) {
			c.send(strings.TrimSuffix(requests(commands...), "\n")) // which send adds
			for _, line := range lines(commands...) {
				c.expect(line)
			}
		}
		ask("ten") // does not suit
		for range lines("ten") {
			<-seen
		}
		ask(batch...)
		ask(batch...) // it happens once
		if !end() || !slices.Equal(before, lines(batch[:ahead]...)) {
			t.Errorf("%d commands are to go ahead: the server had %q", ahead, before)
		}
	}
}

func TestAnInterruptThatIsTakenBackDoesNotHappen(t *testing.T) {
	p, c, _ := through(t)
	first := p.Interrupt(func([][]string) int { return 0 }, func() { t.Error("the first has happened") })
	second := p.Interrupt(func([][]string) int { return 0 }, func() { t.Error("the second has happened") })
	for i, end := range []func() bool{first, second, second} {
		if end() {
			t.Errorf("end %d says that it has happened", i+1)
		}
	}
	c.send(strings.TrimSuffix(requests("one"), "\n"))
	c.expect("*1")
}

func TestObserveShowsCommandsUntilItsEnd(t *testing.T) {
	p, c, _ := through(t)
	var seen []string
	end := p.Observe(func(commands [][]string) {
		for _, words := range commands {
			seen = append(seen, words[0])
		}
	})
	for _, word := range []string{"one", "two"} {
		c.send(strings.TrimSuffix(requests(word), "\n"))
		for _, line := range lines(word) {
			c.expect(line)
		}
		if end(); !slices.Equal(seen, []string{"one"}) {
			t.Errorf("seen: %q, want the first", seen)
		}
	}
}

func TestABatchIsSplitIntoItsCommands(t *testing.T) {
	const (
		ping = "*1\r\n$4\r\nPING\r\n"
		set  = "*3\r\n$3\r\nSET\r\n$3\r\n*\r\n\r\n$0\r\n\r\n" // a key that looks like a command, and nothing in it
	)
	for _, tt := range []struct {
		batch string
		want  [][]string
		ends  []int
	}{
		{"", nil, []int{0}},
		{ping, [][]string{{"PING"}}, []int{0, len(ping)}},
		{ping + set + ping, [][]string{{"PING"}, {"SET", "*\r\n", ""}, {"PING"}}, []int{0, len(ping), len(ping + set), len(ping + set + ping)}},
		{ping + set[:len(set)-1], [][]string{{"PING"}}, []int{0, len(ping)}}, // the second is not whole
		{set[4:], nil, []int{0}},
		{"PING\r\n", nil, []int{0}},
		{"*0\r\n" + ping, nil, []int{0}},
		{"*-1\r\n", nil, []int{0}},
		{"*1\r\n$-1\r\n", nil, []int{0}},
		{"*9223372036854775807\r\n$9223372036854775807\r\nx\r\n", nil, []int{0}},
		{"*99999999999999999999\r\n", nil, []int{0}},
	} {
		if got, ends := commands([]byte(tt.batch)); !reflect.DeepEqual(got, tt.want) || !slices.Equal(ends, tt.ends) {
			t.Errorf("%q has the commands %q that end at %v, want %q at %v", tt.batch, got, ends, tt.want, tt.ends)
		}
	}
}
