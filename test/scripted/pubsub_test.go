package scripted

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/resp"
	"github.com/quorumlock/quorumlock/test/leak"
	"github.com/quorumlock/quorumlock/test/patient"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The conversations are those of Redis 7.0, byte for byte, but for what HELLO says of
// the server.
func TestSubscribersAreToldAsByRedis(t *testing.T) {
	const (
		hello = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n" +
			"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
		misplacedGet = "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"
	)
	type step struct {
		send []string
		want string
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"RESP2", []step{
			{[]string{"PING"}, "+PONG\r\n"},
			{[]string{"PING", "words"}, "$5\r\nwords\r\n"},
			{[]string{"UNSUBSCRIBE"}, "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"},
			{[]string{"SUBSCRIBE", "a", "b"}, "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"},
			{[]string{"PING"}, "*2\r\n$4\r\npong\r\n$0\r\n\r\n"},
			{[]string{"PING", "words"}, "*2\r\n$4\r\npong\r\n$5\r\nwords\r\n"},
			{[]string{"GET", "key"}, misplacedGet},
			{[]string{"SUBSCRIBE", "c", "forbidden"}, "-" + NoPerm + "\r\n"},
			{[]string{"PUNSUBSCRIBE"}, "*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:2\r\n"},
			{[]string{"UNSUBSCRIBE", "a", "x"}, "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:1\r\n"},
			{[]string{"UNSUBSCRIBE"}, "*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n"},
			{[]string{"GET", "key"}, "$-1\r\n"},
		}},
		{"RESP3", []step{
			{[]string{"HELLO", "3"}, hello},
			{[]string{"SUBSCRIBE", "a"}, ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"},
			{[]string{"PING"}, "+PONG\r\n"},
			{[]string{"GET", "key"}, "_\r\n"},
			{[]string{"PUBLISH", "a", "to myself"}, ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$9\r\nto myself\r\n:1\r\n"},
			{[]string{"SUNSUBSCRIBE"}, ">3\r\n$12\r\nsunsubscribe\r\n_\r\n:0\r\n"},
			{[]string{"PUNSUBSCRIBE"}, ">3\r\n$12\r\npunsubscribe\r\n_\r\n:1\r\n"},
			{[]string{"UNSUBSCRIBE"}, ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"},
			{[]string{"UNSUBSCRIBE"}, ">3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", Start(t).Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			for _, step := range tt.steps {
				var cmd driver.Command
				for _, arg := range step.send {
					cmd.Args = append(cmd.Args, arg)
				}
				if _, err := resp.WriteCommands(conn, []driver.Command{cmd}); err != nil {
					t.Fatal(err)
				}
				expectBytes(t, conn, step.send, step.want)
			}
		})
	}
}

// expectBytes reads as much as is wanted.
func expectBytes(t *testing.T, conn net.Conn, sent []string, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patient.Guard))
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("%q is answered with %q, %v, want %q", sent, got[:n], err, want)
	}
}
