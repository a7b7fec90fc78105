package resp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quorumlock/quorumlock/driver"
)

func reader(raw string) *Reader { return NewReader(bufio.NewReader(strings.NewReader(raw))) }

func TestReaderReadsOneReply(t *testing.T) {
	for _, raw := range []string{
		"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n$0\r\n\r\n$4\r\n\r\n$9\r\n",
		"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", "-NOPERM no\r\n", "*-1\r\n", "*0\r\n", "+PONG\r\n",
		"$100000\r\n" + strings.Repeat("x", 100_000) + "\r\n",
	} {
		want, _, err := Decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(iotest.OneByteReader(strings.NewReader(raw + "+next\r\n")))
		got, err := NewReader(in).Reply()
		if next, _ := in.ReadString('\n'); err != nil || !reflect.DeepEqual(got, want) || next != "+next\r\n" {
			t.Errorf("Reply of %.40q = %+v, %v, and left %q, want %+v and the next reply", raw, got, err, next, want)
		}
		if got, err := reader(raw[:len(raw)-1]).Reply(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Reply of %.40q without its end = %+v, %v, want io.ErrUnexpectedEOF", raw, got, err)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for raw, want := range map[string]error{
		"": io.EOF, "$4\r\nab": io.ErrUnexpectedEOF, "*2\r\n:1\r\n": io.ErrUnexpectedEOF, "+O": io.ErrUnexpectedEOF,
		"\r\n": driver.ErrProtocol, "+OK\n": driver.ErrProtocol, ":one\r\n": driver.ErrProtocol, "$-2\r\n": driver.ErrProtocol,
		"$536870913\r\n": driver.ErrProtocol, "$2\r\nabcd": driver.ErrProtocol, "|1\r\n+ttl\r\n:9\r\n+OK\r\n": driver.ErrProtocol,
	} {
		if got, err := reader(raw).Reply(); !errors.Is(err, want) {
			t.Errorf("Reply of %q = %+v, %v, want %v", raw, got, err, want)
		}
	}
}

func TestReaderReadsCommands(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
		err  error
	}{
		{in: "*1\r\n$4\r\nPING\r\n", want: []string{"PING"}},
		{in: "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", want: []string{"GET", ""}},
		{in: "*1\r\n$6\r\n\r\n$1\r\n\r\n", want: []string{"\r\n$1\r\n"}},
		{in: "*0\r\n", want: []string{}},
		{in: "", err: io.EOF},
		{in: "*1\r\n$4\r\nPI", err: io.ErrUnexpectedEOF},
		{in: "PING\r\n", err: driver.ErrProtocol},
		{in: "+PING\r\n", err: driver.ErrProtocol},
		{in: "*1\r\n+PING\r\n", err: driver.ErrProtocol},
		{in: "*1\r\n$04\r\nPING\r\n", err: driver.ErrProtocol},
		{in: "*1\n$4\r\nPING\r\n", err: driver.ErrProtocol},
		{in: "*-1\r\n", err: driver.ErrProtocol},
		{in: "*1\r\n$-1\r\n", err: driver.ErrProtocol},
		{in: "*1\r\n$3\r\nPING\r\n", err: driver.ErrProtocol},
		{in: "*99999999\r\n", err: driver.ErrProtocol},
		{in: "*1\r\n$99999999\r\n", err: driver.ErrProtocol},
		{in: "*one\r\n", err: driver.ErrProtocol},
	} {
		if got, err := reader(tt.in).Command(); !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
			t.Errorf("Command of %q = %q, %v, want %q, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

// FuzzReader reads any input, in one piece and byte by byte, and gives back what was written
// as a command.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "*3\r\n+message\r\n:1\r\n*0\r\n", "-\r\n", "\n", "*0\r\n", "$-1\r\n",
		"$9223372036854775807\r\n", "*9223372036854775807\r\n", "*99999999999999999999\r\n", "*2\r\n:1\r\n*1\r\n-ERR no\r\n",
		"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n", "*1\r\n$4\r\nPING",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := reader(raw).Reply()
		pieces, inPieces := NewReader(bufio.NewReader(iotest.OneByteReader(strings.NewReader(raw)))).Reply()
		if !reflect.DeepEqual(got, pieces) || (err == nil) != (inPieces == nil) || err != nil && err.Error() != inPieces.Error() {
			t.Errorf("%q = %v, %v at once and %v, %v byte by byte, want the same", raw, got, err, pieces, inPieces)
		}
		if err != nil {
			return
		}
		if want, _, err := Decode([]byte(raw)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Reply of %q = %+v, but Decode %+v, %v", raw, got, want, err)
		}
		_ = noticeOf(got)
		if args, err := reader(raw).Command(); err == nil {
			var cmd driver.Command
			for _, arg := range args {
				cmd.Args = append(cmd.Args, arg)
			}
			var written bytes.Buffer
			if n, err := WriteCommands(&written, []driver.Command{cmd}); err != nil || n != written.Len() || !strings.HasPrefix(raw, written.String()) {
				t.Errorf("the command %q was written as %q, %v, and read from %q", args, &written, err, raw)
			}
		}
	})
}
