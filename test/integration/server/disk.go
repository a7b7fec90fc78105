package server

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// PowerCut ends the server as when its machine loses power: what it wrote is gone,
// unless an fsync had brought it to the disk. Start then finds the rest. Only files'
// contents can be lost; that a file was made or renamed is never. It needs Setup.Disk.
func (p *Process) PowerCut() error {
	if !p.setup.Disk {
		return fmt.Errorf("server at %s has the machine's disk: Setup.Disk is not set", p.Addr())
	}
	if err := p.Kill(); err != nil {
		return err
	}
	safe, err := p.synced()
	if err != nil {
		return err
	}
	return filepath.WalkDir(p.data(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		length := safe[info.Sys().(*syscall.Stat_t).Ino]
		if info.Size() <= length {
			return nil
		}
		return os.Truncate(path, length)
	})
}

func (p *Process) fsyncsFile() string { return filepath.Join(p.dir, "fsyncs") }

// synced returns how much of each file, by its inode, is on the disk.
func (p *Process) synced() (map[uint64]int64, error) {
	safe := map[uint64]int64{}
	notes, err := os.Open(p.fsyncsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return safe, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = notes.Close() }()
	lines := bufio.NewScanner(notes)
	for lines.Scan() {
		var (
			inode  uint64
			length int64
		)
		if _, err := fmt.Fscan(strings.NewReader(lines.Text()), &inode, &length); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", p.fsyncsFile(), lines.Text(), err)
		}
		safe[inode] = length
	}
	return safe, lines.Err()
}
