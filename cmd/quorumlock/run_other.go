//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import "github.com/spf13/cobra"

// programVerbs are none here: this system has no way to stop a program with all its descendants.
func programVerbs(*tool) []*cobra.Command { return nil }
