//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package supervise

import (
	"context"
	"os"
)

// Init does nothing here.
func Init() {}

func run(context.Context, Lease, Program, Options) (Result, error) { return Result{}, ErrSystem }

// Notify returns no signals here.
func Notify() (signals <-chan os.Signal, stop func()) { return nil, func() {} }

// Reap does nothing here.
func Reap() (stop func()) { return func() {} }

// Ends is false here.
func Ends(os.Signal) bool { return false }

// InForeground is false here.
func InForeground() bool { return false }
