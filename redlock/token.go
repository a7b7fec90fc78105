package redlock

import (
	"crypto/rand"
	"encoding/hex"
)

// tokenMark begins every token that this library makes, so that a waiter can tell
// a holder whose release will be announced from a client of another library.
const tokenMark = "ql:"

// newToken returns a token that nobody can guess and that was never used before:
// 128 bits from crypto/rand.
func newToken() string {
	var random [16]byte
	rand.Read(random[:]) // since Go 1.24 it never fails
	token := make([]byte, len(tokenMark)+2*len(random))
	copy(token, tokenMark)
	hex.Encode(token[len(tokenMark):], random[:])
	return string(token)
}
