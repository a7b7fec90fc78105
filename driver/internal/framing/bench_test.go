package framing

import (
	"strings"
	"testing"
)

// BenchmarkExchange sends batches of commands and receives their replies.
func BenchmarkExchange(b *testing.B) {
	const set = "*6\r\n$3\r\nSET\r\n$9\r\norders:42\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n10000\r\n"
	for name, exchange := range map[string]struct{ command, reply string }{
		"granted": {set, "+OK\r\n"},
		"taken":   {set, "$-1\r\n"},
		"number":  {set, ":1732294196123\r\n"},
		"refused": {set, "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"},
		"script":  {set, "*3\r\n:1\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n:1732294196123\r\n"},
	} {
		commands, replies := []byte(strings.Repeat(exchange.command, 16)), []byte(strings.Repeat(exchange.reply, 16))
		b.Run(name, func(b *testing.B) {
			e := NewExchange()
			for b.Loop() {
				_ = e.Sent(commands)
				if right, err := e.Received(replies); right != len(replies) {
					b.Fatal(err)
				}
			}
		})
	}
}
