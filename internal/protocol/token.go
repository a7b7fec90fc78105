package protocol

import (
	"encoding/hex"
	"io"
	"strings"
)

// TokenMark begins every token that this library makes, so that a waiter can tell a holder
// whose release will be announced from a client of another library.
const TokenMark = "ql:"

// NewToken returns a token that nobody can guess and that was never used before: 128 bits from
// random, which is crypto/rand's and never fails.
func NewToken(random io.Reader) string {
	token := make([]byte, len(TokenMark)+32)
	copy(token, TokenMark)
	hex.Encode(token[len(TokenMark):], bits(random))
	return string(token)
}

// NewNonce returns 128 bits of random as hex digits.
func NewNonce(random io.Reader) string { return hex.EncodeToString(bits(random)) }

func bits(random io.Reader) []byte {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		panic("redlock: no random bits: " + err.Error()) // crypto/rand ends the process itself
	}
	return b[:]
}

// Marked reports whether a token is of this library's making, so that its release will be
// announced.
func Marked(token string) bool { return strings.HasPrefix(token, TokenMark) }
