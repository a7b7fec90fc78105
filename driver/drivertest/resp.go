package drivertest

import (
	"strconv"
	"strings"
)

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

// table is a map with n/2 entries, which is a flat array in RESP2.
func table(proto int, elems ...string) string {
	if proto == 3 {
		return "%" + strconv.Itoa(len(elems)/2) + "\r\n" + strings.Join(elems, "")
	}
	return array(elems...)
}
