//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package supervise

import "os"

func executable() (string, error) { return os.Executable() }
