package scripted

import (
	"strconv"
	"strings"
)

// Simple is a line.
func Simple(s string) string { return "+" + s + "\r\n" }

// Failure is an error reply.
func Failure(s string) string { return "-" + s + "\r\n" }

// Integer is a number.
func Integer(n int64) string { return ":" + strconv.FormatInt(n, 10) + "\r\n" }

// Bulk is a string of any bytes.
func Bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// Array puts the encoded elements into one reply.
func Array(elems ...string) string {
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

// Table is a map with n/2 entries, which is a flat array in RESP2.
func Table(proto int, elems ...string) string {
	if proto == 3 {
		return "%" + strconv.Itoa(len(elems)/2) + "\r\n" + strings.Join(elems, "")
	}
	return Array(elems...)
}

// push encodes what is no reply: RESP3 has a type of its own for it.
func push(proto int, elems ...string) string {
	if proto == 3 {
		return ">" + strconv.Itoa(len(elems)) + "\r\n" + strings.Join(elems, "")
	}
	return Array(elems...)
}
