package server

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoCompiler says that no server can run with a clock or a disk of its own.
var ErrNoCompiler = errors.New("no gcc in PATH (install gcc)")

// shims are small libraries in C that the linker puts between a server and its C
// library.
//
//go:embed shim/*.c
var shims embed.FS

// build returns the library of a shim. It is built once a version, into the user's
// cache.
func build(shim string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", ErrNoCompiler
	}
	source, err := shims.ReadFile("shim/" + shim + ".c")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "quorumlock", "shims")
	library := filepath.Join(cache, fmt.Sprintf("%s-%.6x.so", shim, sha256.Sum256(source)))
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	from, to := filepath.Join(work, shim+".c"), filepath.Join(work, shim+".so")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return "", err
	}
	said, err := exec.Command(gcc, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", to, from).CombinedOutput() //nolint:gosec,noctx // our own source; ends soon
	if err != nil {
		return "", fmt.Errorf("building the %s shim: %w: %s", shim, err, said)
	}
	return library, os.Rename(to, library) // others may be building it, too
}
