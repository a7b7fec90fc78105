package container

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/redisserver"
)

// launch starts a container for one test, or skips the test where none can run: the
// suite of package integration says in one line that containers did not run.
func launch(t *testing.T) *Container {
	t.Helper()
	if err := Prepare(t.Context()); err != nil {
		if redisserver.Required("containers") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	c, err := Launch(t.Context(), Images()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the container: %v", err)
		}
	})
	return c
}

// say sends one line and returns the first line of the answer.
func say(t *testing.T, c *Container, line string, wait time.Duration) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", c.Addr())
	if err != nil {
		return "refused"
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(line + "\r\n")); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "silent"
	}
	return strings.TrimSpace(reply)
}

func TestContainerTakesHarm(t *testing.T) {
	c := launch(t)
	const patient, brief = 5 * time.Second, 50 * time.Millisecond
	for _, step := range []struct {
		name string
		harm func() error
		say  string
		wait time.Duration
		want string
	}{
		{"start", nil, "SET k 1", patient, "+OK"},
		{"pause", c.Pause, "GET k", brief, "silent"},
		{"continue", c.Continue, "GET k", patient, "$1"},
		{"kill", c.Kill, "GET k", patient, "refused"},
		{"start again", c.Start, "GET k", patient, "$-1"},
		{"pause again", c.Pause, "GET k", brief, "silent"},
		{"kill while paused", c.Kill, "GET k", patient, "refused"},
		{"start a third time", c.Start, "GET k", patient, "$-1"},
	} {
		if step.harm != nil {
			if err := step.harm(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if got := say(t, c, step.say, step.wait); got != step.want {
			t.Fatalf("after %s: %s = %q, want %q", step.name, step.say, got, step.want)
		}
	}
}

func TestMain(m *testing.M) { leak.Main(m) }
