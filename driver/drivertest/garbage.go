package drivertest

import "strings"

// hostileReplies are the fuzzer's seeds: replies of servers, replies that no server should
// send, and replies that are known to hurt clients.
var hostileReplies = []string{
	// What there is, where it was not asked for.
	"", "+OK\r\n", "+PONG\r\n", "+QUEUED\r\n", ":1\r\n", "$2\r\nOK\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "*0\r\n", "*2\r\n:1\r\n$1\r\na\r\n",
	"#t\r\n", "#f\r\n", ",1.5\r\n", ",inf\r\n", ",nan\r\n", "(12345678901234567890123\r\n", "=7\r\ntxt:abc\r\n", "!5\r\nERR x\r\n",
	"%1\r\n+k\r\n:1\r\n", "~2\r\n:1\r\n:2\r\n", "*3\r\n%1\r\n+k\r\n~1\r\n#t\r\n*-1\r\n_\r\n",
	"-ERR no\r\n", "-MOVED\r\n", "-MOVED 1\r\n", "-MOVED 1 127.0.0.1:1\r\n", "-ASK\r\n", "-REDIRECT\r\n", "-READONLY\r\n", "-LOADING\r\n",
	"-NOSCRIPT\r\n", "-BUSY\r\n", "-NOAUTH\r\n", "-CLUSTERDOWN\r\n", "-TRYAGAIN\r\n", "-\r\n", "- \r\n", "-err\r\n", "-\xff\x00 \xfe\r\n",

	// More than one, or less.
	"+OK\r\n+OK\r\n", "+OK\r\n+OK\r\n+OK\r\n+OK\r\n", "$2\r\nOK\r\n:1\r\n_\r\n", "+OK", "+OK\r", "+O", "+", "$5\r\nab", "$2\r\nOK", "*2\r\n:1\r\n", ":12",

	// What RESP3 has beside replies.
	"|1\r\n+ttl\r\n:9\r\n+OK\r\n", "|1\r\n+ttl\r\n:9\r\n", ">2\r\n+server-cpu-usage\r\n:1\r\n+OK\r\n", ">0\r\n+OK\r\n", ">-1\r\n", ">1\r\n+message\r\n",
	"*2\r\n>2\r\n+invalidate\r\n*0\r\n:1\r\n:2\r\n", ">2\r\n+invalidate\r\n_\r\n", ">2\r\n+invalidate\r\n:1\r\n",
	">3\r\n+subscribe\r\n+x\r\n:1\r\n", ">3\r\n+unsubscribe\r\n+x\r\n:0\r\n", ">3\r\n+message\r\n+x\r\n+y\r\n", ">4\r\n+pmessage\r\n+x\r\n+y\r\n+z\r\n",
	">3\r\n-subscribe\r\n+x\r\n:1\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n", "*2\r\n+pong\r\n+\r\n",
	"$?\r\n;2\r\nOK\r\n;0\r\n", "*?\r\n:1\r\n.\r\n", "%?\r\n+k\r\n:1\r\n.\r\n", "~?\r\n.\r\n", ".\r\n", ";2\r\nOK\r\n",

	// Lengths.
	"$-5\r\n", "*-7\r\n", "%-1\r\n", "~-1\r\n", "=-1\r\n", "!-1\r\n", "|-1\r\n", "%-2\r\n", "$1\r\nabc\r\n", "$3\r\na\r\n", "$0\r\n", "$00000000002\r\nOK\r\n", "$+2\r\nOK\r\n",
	"$536870912\r\n", "$99999999999\r\n", "$2147483648\r\n", "$9223372036854775807\r\n", "$9223372036854775808\r\n", "$18446744073709551616\r\n",
	"!99999999999\r\n", "=99999999999\r\n", "=1\r\na\r\n", "=3\r\ntxt\r\n", "$\r\n", "$-\r\n", "$a\r\n", "*\r\n", "*-\r\n", "*a\r\n",
	"*2147483647\r\n", "*99999999999\r\n", "*9223372036854775807\r\n", "%2147483647\r\n", "%4611686018427387904\r\n", "%9223372036854775807\r\n", "~2147483647\r\n", ">2147483647\r\n", "|2147483647\r\n",
	":\r\n", ":-\r\n", ":a\r\n", ":1.5\r\n", ":9223372036854775808\r\n", ":99999999999999999999\r\n", "#\r\n", "#x\r\n", "#tt\r\n", "_x\r\n", "_+OK\r\n", "(a\r\n", "(\r\n", ",\r\n", ",a\r\n",

	// Line ends, and no RESP at all.
	"+OK\n", "+OK\r", "\r\n", "\n", "\r", "\r\n+OK\r\n", "$2\nOK\n", "$2\r\nOKxx", "$2\r\nOK\n\r", "+O\rK\r\n", "+O\nK\r\n", ":1\n", "*1\n:1\n", "\x00", "\x00\x00\r\n",
	"+\xff\xfe\xfd\r\n", "$3\r\n\xff\x00\xfe\r\n", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "ERR no\r\n", "OK\r\n", "\x16\x03\x01\x02\x00\x01", "@1\r\n",

	strings.Repeat("*1\r\n", 40) + ":1\r\n", strings.Repeat("%1\r\n", 40), strings.Repeat(">1\r\n", 40), strings.Repeat("|1\r\n", 40),
	"+" + strings.Repeat("x", 5000) + "\r\n", "-" + strings.Repeat("x", 5000), strings.Repeat("+OK\r\n", 300), strings.Repeat("\r\n", 300),
}

// largeReplies are too large to be changed byte by byte.
var largeReplies = []struct {
	name        string
	head        string
	again, tail string
	times       int
}{
	{name: "a line without end", head: "+", again: "x", times: 1 << 20},
	{name: "a length without end", head: "$", again: "1", times: 1 << 20},
	{name: "an error without end", head: "-ERR ", again: "x", times: 1 << 20},
	{name: "arrays in arrays", again: "*1\r\n", times: 1 << 18},
	{name: "maps in maps", again: "%1\r\n+k\r\n", times: 1 << 17},
	{name: "wide arrays in arrays", again: "*60000\r\n", times: 1 << 10},
	{name: "a string that is as large as it says", head: "$8388608\r\n", again: "x", times: 8 << 20, tail: "\r\n"},
	{name: "an array that is as large as it says", head: "*1000000\r\n", again: "_\r\n", times: 1_000_000},
	{name: "many replies", again: "+OK\r\n", times: 1 << 16},
}

// hostileNotices are what a fuzzer begins with, beside replies.
var hostileNotices = []string{
	"*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n", "*3\r\n$7\r\nmessage\r\n$-1\r\n$-1\r\n", "*2\r\n$7\r\nmessage\r\n$1\r\nx\r\n", "*1\r\n$7\r\nmessage\r\n",
	"*4\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n", "*3\r\n$7\r\nmessage\r\n*0\r\n*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "*3\r\n*3\r\n+message\r\n+x\r\n+y\r\n+x\r\n+y\r\n",
	">3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n", ">3\r\n$7\r\nmessage\r\n_\r\n_\r\n", ">2\r\n$7\r\nmessage\r\n$1\r\nx\r\n", ">3\r\n$7\r\nmessage\r\n*0\r\n%1\r\n:1\r\n:2\r\n",
	">4\r\n+pmessage\r\n+x\r\n+y\r\n+z\r\n", ">3\r\n+smessage\r\n+x\r\n+y\r\n", ">3\r\n+MESSAGE\r\n+x\r\n+y\r\n",
	"*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n", ">3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n", ">3\r\n$9\r\nsubscribe\r\n_\r\n$1\r\nx\r\n", ">2\r\n$9\r\nsubscribe\r\n_\r\n",
	"*3\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n:0\r\n", ">3\r\n$11\r\nunsubscribe\r\n$5\r\nother\r\n:0\r\n", ">3\r\n+unsubscribe\r\n_\r\n:-1\r\n", ">3\r\n+sunsubscribe\r\n+x\r\n:0\r\n",
	"*2\r\n$4\r\npong\r\n$0\r\n\r\n", "+PONG\r\n", "-NOPERM no\r\n", "-ERR max number of clients reached\r\n", ">3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$400000000\r\n", "*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$400000000\r\n",
}
