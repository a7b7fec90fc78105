package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"
)

// A window is a file with the times of the calls of the last second, the oldest first,
// and never more than the limit of them.
type window struct {
	file  string
	limit int
}

const second = time.Second

// take asks for one more call. It is granted if wait is 0; otherwise it is worth asking
// again after wait. Whoever takes in the meantime is not counted.
func (w window) take(ctx context.Context, now time.Time, writer string) (wait time.Duration, err error) {
	calls, err := w.read()
	if err != nil {
		return 0, err
	}
	for len(calls) > 0 && now.Sub(calls[0]) >= second {
		calls = calls[1:]
	}
	if len(calls) >= w.limit {
		return calls[0].Add(second).Sub(now), nil
	}
	select {
	case <-time.After(time.Millisecond): // in place of the way to a store on another machine
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return 0, w.write(append(calls, now), writer)
}

func (w window) read() (calls []time.Time, err error) {
	text, err := os.ReadFile(w.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil // nobody has called yet
	case err != nil:
		return nil, err
	}
	return calls, json.Unmarshal(text, &calls)
}

// write puts a whole file in place of the old one: what is lost without the lock is
// calls, and not half a file. The draft's name is the writer's alone.
func (w window) write(calls []time.Time, writer string) error {
	text, err := json.Marshal(calls)
	if err != nil {
		return err
	}
	draft := w.file + "." + writer
	if err := os.WriteFile(draft, text, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, w.file)
}
