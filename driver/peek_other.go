//go:build !unix

package driver

// waiting cannot be known here without waiting.
func (*Conn) waiting() bool { return false }

func (*Conn) peek(uintptr) {}
