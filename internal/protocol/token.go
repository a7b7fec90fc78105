package protocol

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TokenMark begins every token of this library, so that a waiter can tell a holder whose release will be
// announced from a client of another library.
const TokenMark = "ql:"

// Random returns 128 bits that nobody can guess, and that were never returned before.
type Random func() [16]byte

// nonceEnd is where the random part of a token ends.
const nonceEnd = len(TokenMark) + 32

// sinceBase is the base of a time in a token.
const sinceBase = 36

// Token returns a token that nobody can guess and that was never used before. Its end is the time, by this
// machine's clock, and the owner's name; "": neither.
func (r Random) Token(owner string) string {
	bits := r()
	token := make([]byte, nonceEnd, nonceEnd+len("@mig8j0w1:")+len(owner))
	copy(token, TokenMark)
	hex.Encode(token[len(TokenMark):], bits[:])
	if owner != "" {
		token = strconv.AppendInt(append(token, '@'), time.Now().UnixMilli(), sinceBase)
		token = append(append(token, ':'), owner...)
	}
	return string(token)
}

// Owner returns the name of the owner at the end of a token, or "".
func Owner(token string) string {
	_, owner := signature(token)
	return owner
}

// Since returns when the lock with a token was taken, by its holder's clock; zero: not known.
func Since(token string) (t time.Time) {
	digits, owner := signature(token)
	if milli, err := strconv.ParseInt(digits, sinceBase, 64); err == nil && milli > 0 && owner != "" {
		t = time.UnixMilli(milli).UTC()
	}
	return t
}

// signature is the end of a token behind its random part: the digits of a time, and an owner. Others may
// have written it.
func signature(token string) (since, owner string) {
	if !Marked(token) || len(token) < nonceEnd+2 {
		return "", ""
	}
	since, owner, _ = strings.Cut(token[nonceEnd:], ":")
	if since, timed := strings.CutPrefix(since, "@"); IsName(owner) && timed == (since != "") {
		return since, owner
	}
	return "", ""
}

// MaxName is the longest name of an owner, in bytes.
const MaxName = 1 << 10

// IsName reports whether an owner may have this name: printable characters, which need no escape in a
// message, a log or a terminal.
func IsName(name string) bool {
	return name != "" && len(name) <= MaxName && utf8.ValidString(name) &&
		strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Nonce returns a random value of 32 hex digits.
func (r Random) Nonce() string {
	bits := r()
	return hex.EncodeToString(bits[:])
}

// Marked reports whether a token is of this library's making: then its release will be announced.
func Marked(token string) bool { return strings.HasPrefix(token, TokenMark) }

// Digits are the first four digits of a token's random part: they tell holders apart, and the rest cannot be
// guessed by them. "": the token is of another library.
func Digits(token string) string {
	if !Marked(token) || len(token) < nonceEnd || len(token) > nonceEnd && token[nonceEnd] != ':' && token[nonceEnd] != '@' {
		return ""
	}
	if _, err := hex.DecodeString(token[len(TokenMark):nonceEnd]); err != nil {
		return ""
	}
	return token[len(TokenMark):][:4]
}

// Kept reports whether the value of a key is a ticket: nobody has the key, and the node keeps it for the first
// in line, see keep.lua. A refusal names a ticket in the way in the same form.
func Kept(value string) bool { return strings.HasPrefix(value, TokenMark+"line ") }

// RevokedPrefix begins a tombstone, the value of a key that was taken from its holder: a random part follows
// and, if there is one, the reason, in a token's form. A tombstone keeps the expiry of the token before. To
// every client it is somebody else's token.
const RevokedPrefix = TokenMark + "revoked:"

// Revoked reports whether the value of a key is a tombstone, and returns its reason; "": it has none that
// can be shown.
func Revoked(value string) (reason string, ok bool) {
	rest, ok := strings.CutPrefix(value, RevokedPrefix)
	if _, reason, _ = strings.Cut(rest, ":"); !ok || !IsName(reason) {
		return "", ok
	}
	return reason, true
}
