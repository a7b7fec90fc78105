//go:build !unix

package framing

// waiting cannot be known here without waiting.
func (*Conn) waiting() bool { return false }

func (*Conn) peek(uintptr) {}
