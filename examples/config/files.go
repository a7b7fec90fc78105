package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// Files are the folder of a configuration: an address, and the password that belongs to it. Here
// each of them is the number of its version.
type files string

// write writes both files, one after the other.
func (f files) write(ctx context.Context, version int) error {
	if err := f.set("address", version); err != nil {
		return err
	}
	if err := pause(ctx, step); err != nil {
		return err
	}
	return f.set("password", version)
}

// read reads both files, one after the other.
func (f files) read(ctx context.Context) (address, password int, err error) {
	if address, err = f.get("address"); err != nil {
		return 0, 0, err
	}
	if err = pause(ctx, step); err != nil {
		return 0, 0, err
	}
	password, err = f.get("password")
	return address, password, err
}

// set replaces a file at once.
func (f files) set(name string, version int) error {
	draft := filepath.Join(string(f), name+".draft")
	if err := os.WriteFile(draft, []byte(strconv.Itoa(version)), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(string(f), name))
}

func (f files) get(name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(string(f), name)) //nolint:gosec // the folder is the program's own
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}
