package framing

import (
	"strconv"
	"strings"
	"testing"
)

// ask writes commands that a client would write: "SUBSCRIBE a b".
func ask(commands ...string) string {
	var raw strings.Builder
	for _, command := range commands {
		args := strings.Fields(command)
		raw.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
		for _, arg := range args {
			raw.WriteString("+" + arg + "\r\n")
		}
	}
	return raw.String()
}

func TestLedger(t *testing.T) {
	push := func(words ...string) string { return ">" + ask(strings.Join(words, " "))[1:] }
	list := func(words ...string) string { return ask(strings.Join(words, " ")) }
	for _, tt := range []struct {
		name      string
		onCommand string
		said      string
		unasked   string // the part behind said that is too much
	}{
		{"nothing was asked", "", "", "+OK\r\n"},
		{"each command has a reply", ask("GET a", "GET b"), "+OK\r\n-ERR no\r\n", "+OK\r\n"},
		{"a redirection", ask("GET a"), "-MOVED 1 127.0.0.1:1\r\n", "-MOVED 1 127.0.0.1:1\r\n"},
		{"a redirection to nowhere", ask("GET a"), "", "-MOVED 1\r\n"},
		{"a question to nowhere", ask("GET a"), "", "!3\r\nASK\r\n"},
		{"an array is a reply", ask("GET a"), list("a", "b"), list("a", "b")},
		{"a push is none in RESP2", ask("GET a"), "", push("message", "a", "b")},
		{"a push is no reply in RESP3", ask("HELLO 3", "GET a"), "%0\r\n" + push("message", "a", "b") + "+OK\r\n" + push("x"), "+OK\r\n"},
		{"HELLO 2 ends RESP3", ask("HELLO 3", "HELLO 2", "GET a"), "%0\r\n*0\r\n", push("x")},

		{"confirmations", ask("HELLO 3", "SUBSCRIBE a b"), "%0\r\n" + push("subscribe", "a", "1") + push("message", "a", "x") + push("subscribe", "b", "2"), push("subscribe", "c", "3")},
		{"a confirmation behind another's command", ask("HELLO 3", "GET a", "SUBSCRIBE a"), "%0\r\n+OK\r\n" + push("subscribe", "a", "1"), "+OK\r\n"},
		{"a confirmation ahead of its turn", ask("HELLO 3", "GET a", "SUBSCRIBE a"), "%0\r\n", push("subscribe", "a", "1")},
		{"a confirmation that is an error's text", ask("HELLO 3", "GET a"), "%0\r\n", ">1\r\n-subscribe\r\n"},
		{"a refused channel", ask("HELLO 3", "SUBSCRIBE a b", "GET a"), "%0\r\n-NOPERM\r\n+OK\r\n", "+OK\r\n"},
		{"a SUBSCRIBE that is queued", ask("HELLO 3", "SUBSCRIBE a"), "%0\r\n", "+QUEUED\r\n"},
		{"a SUBSCRIBE whose error is QUEUED", ask("HELLO 3", "SUBSCRIBE a"), "%0\r\n", "-QUEUED\r\n"},
		{"a channel is given up", ask("HELLO 3", "UNSUBSCRIBE a", "PING"), "%0\r\n" + push("unsubscribe", "a", "0") + "+PONG\r\n", "+PONG\r\n"},
		{"a channel that the server gives up", ask("HELLO 3"), "%0\r\n" + push("sunsubscribe", "a", "0"), "+OK\r\n"},
		{"UNSUBSCRIBE without a word", ask("HELLO 3", "UNSUBSCRIBE a", "PING"), "%0\r\n+PONG\r\n", "+PONG\r\n"},
		{"an error for UNSUBSCRIBE and PING", ask("HELLO 3", "UNSUBSCRIBE a", "PING"), "%0\r\n", "-BUSY\r\n"},
		{"an error whose text is PONG", ask("HELLO 3", "UNSUBSCRIBE a", "PING"), "%0\r\n", "-PONG\r\n"},

		{"messages in RESP2", ask("SUBSCRIBE a"), list("subscribe", "a", "1") + list("message", "a", "x") + list("y"), "+OK\r\n"},
		{"a PING among messages", ask("SUBSCRIBE a", "PING"), list("subscribe", "a", "1") + list("message", "a", "x") + list("pong"), list("pong")},
		{"a null array is no message", ask("SUBSCRIBE a"), list("subscribe", "a", "1"), "*-1\r\n"},
		{"a refused channel in RESP2", ask("SUBSCRIBE a"), "-NOPERM\r\n", "-NOPERM\r\n"},
		{"an UNSUBSCRIBE alone", ask("SUBSCRIBE a", "UNSUBSCRIBE a"), list("subscribe", "a", "1") + list("unsubscribe", "a", "0"), "-ERR\r\n"},
		{"an UNSUBSCRIBE alone that is refused", ask("SUBSCRIBE a", "UNSUBSCRIBE a"), list("subscribe", "a", "1") + "-NOPERM\r\n", "-NOPERM\r\n"},
		{"an UNSUBSCRIBE of nothing", ask("UNSUBSCRIBE a", "GET a"), list("unsubscribe", "a", "0") + "+OK\r\n", "+OK\r\n"},
		{"an UNSUBSCRIBE of nothing and a PING", ask("UNSUBSCRIBE a", "PING"), list("unsubscribe", "a", "0") + "+PONG\r\n", "+OK\r\n"},
		{"an UNSUBSCRIBE that is answered", ask("UNSUBSCRIBE a"), "", "+OK\r\n"},
	} {
		e := NewExchange()
		if err := e.Sent([]byte(tt.onCommand)); err != nil {
			t.Fatalf("%s: the commands are not right: %v", tt.name, err)
		}
		if n, err := e.Received([]byte(tt.said)); err != nil {
			t.Errorf("%s: behind %d bytes of %q: %v, want no error", tt.name, n, tt.said, err)
			continue
		}
		if n, err := e.Received([]byte(tt.unasked)); err == nil || n == len(tt.unasked) {
			t.Errorf("%s: %q is taken, behind %q", tt.name, tt.unasked, tt.said)
		}
	}
}
