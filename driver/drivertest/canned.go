package drivertest

import (
	"math"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/scripted"
)

// cannedReply is what the server answers to EVAL with this name as the script, and
// what a driver has to make of it.
type cannedReply struct {
	name         string
	resp2, resp3 string // resp3 is empty where it is the same
	want         driver.Reply
}

func (c cannedReply) encode(proto int) string {
	if proto == 3 && c.resp3 != "" {
		return c.resp3
	}
	return c.resp2
}

// allBytes holds every byte once, line ends among them.
var allBytes = func() string {
	var b strings.Builder
	for i := range 256 {
		b.WriteByte(byte(i))
	}
	return b.String()
}()

func nilReply() driver.Reply           { return driver.Reply{Kind: driver.Nil} }
func number(n int64) driver.Reply      { return driver.Reply{Kind: driver.Integer, Int: n} }
func text(s string) driver.Reply       { return driver.Reply{Kind: driver.String, Str: s} }
func refusal(line string) driver.Reply { return driver.Reply{Kind: driver.Failure, Str: line} }

func list(elems ...driver.Reply) driver.Reply {
	return driver.Reply{Kind: driver.Array, Elems: elems}
}

const bigNumber = "3492890328409238509324850943850943825024385"

// The further types of RESP3 are told as driver.Kind says, and a server tells a
// client of RESP2 the same: so there is one answer for both.
var cannedReplies = []cannedReply{
	{name: "nil", resp2: "$-1\r\n", resp3: "_\r\n", want: nilReply()},
	{name: "nil array", resp2: "*-1\r\n", resp3: "_\r\n", want: nilReply()},
	{name: "zero", resp2: scripted.Integer(0), want: number(0)},
	{name: "one", resp2: scripted.Integer(1), want: number(1)},
	{name: "negative integer", resp2: scripted.Integer(-2), want: number(-2)},
	{name: "integer above 2^53", resp2: scripted.Integer(1<<53 + 1), want: number(1<<53 + 1)},
	{name: "largest integer", resp2: scripted.Integer(math.MaxInt64), want: number(math.MaxInt64)},
	{name: "smallest integer", resp2: scripted.Integer(math.MinInt64), want: number(math.MinInt64)},
	{name: "simple string", resp2: scripted.Simple("OK"), want: text("OK")},
	{name: "empty simple string", resp2: scripted.Simple(""), want: text("")},
	{name: "bulk string", resp2: scripted.Bulk("some words"), want: text("some words")},
	{name: "string of digits", resp2: scripted.Bulk("12"), want: text("12")},
	{name: "empty string", resp2: scripted.Bulk(""), want: text("")},
	{name: "string of all bytes", resp2: scripted.Bulk(allBytes), want: text(allBytes)},
	{name: "line ends", resp2: scripted.Bulk("\r\n$3\r\n\r\n"), want: text("\r\n$3\r\n\r\n")},
	{name: "long string", resp2: scripted.Bulk(strings.Repeat("long ", 40_000)), want: text(strings.Repeat("long ", 40_000))},
	{name: "empty array", resp2: scripted.Array(), want: list()},
	{
		name:  "nested array",
		resp2: scripted.Array(scripted.Integer(1), scripted.Array(scripted.Bulk("a"), scripted.Array(scripted.Integer(-1)), "$-1\r\n"), scripted.Simple("OK"), scripted.Array()),
		resp3: scripted.Array(scripted.Integer(1), scripted.Array(scripted.Bulk("a"), scripted.Array(scripted.Integer(-1)), "_\r\n"), scripted.Simple("OK"), scripted.Array()),
		want:  list(number(1), list(text("a"), list(number(-1)), nilReply()), text("OK"), list()),
	},
	{
		name:  "error in an array",
		resp2: scripted.Array(scripted.Integer(1), scripted.Failure("WRONGTYPE not a string"), scripted.Integer(2)),
		want:  list(number(1), refusal("WRONGTYPE not a string"), number(2)),
	},
	{name: "true", resp2: scripted.Integer(1), resp3: "#t\r\n", want: number(1)},
	{name: "false", resp2: scripted.Integer(0), resp3: "#f\r\n", want: number(0)},
	{name: "double", resp2: scripted.Bulk("3.5"), resp3: ",3.5\r\n", want: text("3.5")},
	{name: "big number", resp2: scripted.Bulk(bigNumber), resp3: "(" + bigNumber + "\r\n", want: text(bigNumber)},
	{name: "verbatim string", resp2: scripted.Bulk("some words"), resp3: "=14\r\ntxt:some words\r\n", want: text("some words")},
	{
		name:  "map",
		resp2: scripted.Array(scripted.Bulk("clock"), scripted.Integer(1)), resp3: scripted.Table(3, scripted.Bulk("clock"), scripted.Integer(1)),
		want: list(text("clock"), number(1)),
	},
	{
		name:  "set",
		resp2: scripted.Array(scripted.Bulk("a"), scripted.Bulk("b")), resp3: "~2\r\n" + scripted.Bulk("a") + scripted.Bulk("b"),
		want: list(text("a"), text("b")),
	},
}

// cannedNamed returns the canned reply of this name, and one without a name where
// there is none.
func cannedNamed(name string) cannedReply {
	for _, c := range cannedReplies {
		if c.name == name {
			return c
		}
	}
	return cannedReply{}
}

// startServer starts a server that knows no Lua: a script's text is the name of a canned reply, or
// else an error reply.
func startServer(r reporter) *scripted.Server {
	r.Helper()
	s := scripted.Start(r)
	s.Locked(func() {
		s.Patience = patience
		s.Instead = func(proto int, args []string) (string, bool) {
			if args[0] != "EVAL" {
				return "", false
			}
			if canned := cannedNamed(args[1]); canned.name != "" {
				return canned.encode(proto), true
			}
			return scripted.Failure(args[1]), true
		}
	})
	return s
}
