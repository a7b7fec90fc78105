package protocol

import (
	"encoding/hex"
	"strings"
)

// TokenMark begins every token that this library makes, so that a waiter can tell a holder
// whose release will be announced from a client of another library.
const TokenMark = "ql:"

// Random returns 128 bits that nobody can guess, and that were never returned before.
type Random func() [16]byte

// Token returns a token that nobody can guess and that was never used before.
func (r Random) Token() string {
	bits := r()
	token := make([]byte, len(TokenMark)+2*len(bits))
	copy(token, TokenMark)
	hex.Encode(token[len(TokenMark):], bits[:])
	return string(token)
}

// Nonce returns a random value of 32 hex digits.
func (r Random) Nonce() string {
	bits := r()
	return hex.EncodeToString(bits[:])
}

// Marked reports whether a token is of this library's making, so that its release will be
// announced.
func Marked(token string) bool { return strings.HasPrefix(token, TokenMark) }
