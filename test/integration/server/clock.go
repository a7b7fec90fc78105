package server

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// StepClock moves a running server's wall clock ahead by d, or back if d is negative,
// as when somebody sets a machine's time, and returns when the server has noticed. Steps
// add up, and outlast the server's restarts. It needs Setup.Clock.
func (p *Process) StepClock(d time.Duration) error {
	if !p.setup.Clock {
		return fmt.Errorf("server at %s has the machine's clock: Setup.Clock is not set", p.Addr())
	}
	before, err := p.wallClock()
	if err != nil {
		return err
	}
	p.ahead += d
	if err := p.setClock(); err != nil {
		return err
	}
	// Some, like Valkey 9.1, go by the monotonic clock, and look at the wall clock once
	// in a while.
	for deadline := time.Now().Add(answerTimeout); ; time.Sleep(time.Millisecond) {
		now, err := p.wallClock()
		if err != nil {
			return err
		}
		if (now - before - d).Abs() <= d.Abs()/2 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("server at %s has gone from %v ahead to %v, want a step of %v", p.Addr(), before, now, d)
		}
	}
}

// wallClock returns how far the server's wall clock is ahead of ours.
func (p *Process) wallClock() (time.Duration, error) {
	answer, err := p.Do("TIME")
	if err != nil {
		return 0, err
	}
	var seconds, micros int64
	if _, err := fmt.Sscan(answer, &seconds, &micros); err != nil {
		return 0, fmt.Errorf("server at %s: TIME is %q: %w", p.Addr(), answer, err)
	}
	return time.Until(time.Unix(seconds, micros*int64(time.Microsecond))), nil
}

func (p *Process) clockFile() string { return filepath.Join(p.dir, "clock") }

// setClock writes in place: the server has mapped the file, and one that shrinks or
// is replaced would end it, or change nothing.
func (p *Process) setClock() error {
	file, err := os.OpenFile(p.clockFile(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	ahead := binary.NativeEndian.AppendUint64(nil, uint64(p.ahead)) //nolint:gosec // the shim reads it as signed
	_, err = file.Write(ahead)
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}
