package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Follow makes the server a replica of master, and returns when it has its data and the
// master knows, which hears of it only once a second.
func (p *Process) Follow(master *Process) error {
	// By default a master waits 5s for others that want its data, too.
	if _, err := master.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0"); err != nil {
		return err
	}
	return p.follow(master, func() (bool, error) {
		known, err := master.Do("INFO", "replication")
		return strings.Contains(known, fmt.Sprintf("port=%d,state=online", p.port)), err
	})
}

// Promote makes a replica a master, with the data that it has.
func (p *Process) Promote() error {
	_, err := p.Do("REPLICAOF", "NO", "ONE")
	return err
}

// Turn makes the server a replica of master, and a master again as soon as it has its data:
// within milliseconds, if these are few. The server's clients stay connected.
func (p *Process) Turn(master *Process) error {
	// By default a replica writes the data to a file first, and Valkey 9.1 looks only once a second whether it has.
	if _, err := p.Do("CONFIG", "SET", "repl-diskless-load", "swapdb"); err != nil {
		return err
	}
	if err := p.follow(master, func() (bool, error) { return true, nil }); err != nil {
		return err
	}
	return p.Promote()
}

// follow makes the server a replica of master, and returns when it has its data and known is true.
func (p *Process) follow(master *Process, known func() (bool, error)) error {
	if _, err := p.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(master.port)); err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(time.Millisecond) {
		info, err := p.Do("INFO", "replication")
		follows := strings.Contains(info, "master_link_status:up")
		if follows {
			follows, err = known()
		}
		if err != nil || follows {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("server at %s does not follow %s after %v: %s", p.Addr(), master.Addr(), startTimeout, info)
		}
	}
}
