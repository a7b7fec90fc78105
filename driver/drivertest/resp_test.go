package drivertest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

func TestReadCommand(t *testing.T) {
	tests := []struct {
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
		{in: "PING\r\n", err: errProtocol},
		{in: "*1\n$4\r\nPING\r\n", err: errProtocol},
		{in: "*-1\r\n", err: errProtocol},
		{in: "*1\r\n$-1\r\n", err: errProtocol},
		{in: "*1\r\n$3\r\nPING\r\n", err: errProtocol},
		{in: "*99999999\r\n", err: errProtocol},
		{in: "*1\r\n$99999999\r\n", err: errProtocol},
		{in: "*one\r\n", err: errProtocol},
	}
	for _, tt := range tests {
		got, err := readCommand(bufio.NewReader(strings.NewReader(tt.in)))
		if !errors.Is(err, tt.err) || !slices.Equal(got, tt.want) {
			t.Errorf("readCommand(%q) = %q, %v, want %q, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

// FuzzReadCommand takes any input, and gives back what was written as a command.
func FuzzReadCommand(f *testing.F) {
	f.Add([]byte("*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n"))
	f.Add([]byte("*1\r\n$4\r\nPING"))
	f.Fuzz(func(t *testing.T, in []byte) {
		args, err := readCommand(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			return
		}
		var written bytes.Buffer
		if err := write(&written, []driver.Command{command(0, 0, args...)}); err != nil {
			t.Fatalf("%q cannot be written: %v", args, err)
		}
		again, err := readCommand(bufio.NewReader(&written))
		if err != nil || !slices.Equal(again, args) {
			t.Errorf("readCommand of what was written for %q = %q, %v, want the same", args, again, err)
		}
	})
}
