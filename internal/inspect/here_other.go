//go:build !linux

package inspect

import "runtime"

func readTimekeeping() timekeeping { return timekeeping{asleep: runtime.GOOS == "windows"} }

func readQuota() quota { return quota{} }
