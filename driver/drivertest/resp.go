package drivertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// errProtocol ends the connection of a client that does not speak RESP.
var errProtocol = errors.New("not a command in RESP")

// The greatest sizes that the server takes. They only keep a broken client from
// exhausting the memory of the test.
const (
	maxArgs = 1 << 12
	maxBulk = 8 << 20
)

// readCommand reads one command: an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readHeader(r, '*', maxArgs)
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readHeader(r, '$', maxBulk)
		if err != nil {
			return nil, err
		}
		buf := make([]byte, size+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		if string(buf[size:]) != "\r\n" {
			return nil, errProtocol
		}
		args[i] = string(buf[:size])
	}
	return args, nil
}

// readHeader reads a line that consists of mark and a number from 0 to limit.
func readHeader(r *bufio.Reader, mark byte, limit int) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutSuffix(line, "\r\n")
	if !ok || digits == "" || digits[0] != mark {
		return 0, fmt.Errorf("%w: %q", errProtocol, line)
	}
	n, err := strconv.Atoi(digits[1:])
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%w: %q", errProtocol, line)
	}
	return n, nil
}

func simple(s string) string  { return "+" + s + "\r\n" }
func failure(s string) string { return "-" + s + "\r\n" }
func integer(n int64) string  { return ":" + strconv.FormatInt(n, 10) + "\r\n" }
func bulk(s string) string    { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// array puts the encoded elements into one reply.
func array(elems ...string) string {
	return "*" + strconv.Itoa(len(elems)) + "\r\n" + strings.Join(elems, "")
}

// null is the reply for no value, in the version of the protocol that the
// connection speaks.
func null(proto int) string {
	if proto == 3 {
		return "_\r\n"
	}
	return "$-1\r\n"
}

// table is a map with n/2 entries, which RESP2 tells as a flat array.
func table(proto int, elems ...string) string {
	if proto == 3 {
		return "%" + strconv.Itoa(len(elems)/2) + "\r\n" + strings.Join(elems, "")
	}
	return array(elems...)
}
