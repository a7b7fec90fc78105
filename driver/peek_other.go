//go:build !unix

package driver

// waits cannot be known here without waiting.
func (*Conn) waits() bool { return false }

func (*Conn) peekAt(uintptr) {}
