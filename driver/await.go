package driver

import (
	"context"
	"fmt"
)

// Await calls connect on a goroutine of its own and returns its result. If ctx ends first, it
// returns ctx's error, and late receives the result once there is one. Most clients connect
// without a context, or with a dialer that ignores it. A panic of connect is an error.
func Await[T any](ctx context.Context, connect func() (T, error), late func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result)
	go func() {
		value, err := caught(connect)
		select {
		case results <- result{value, err}:
		case <-ctx.Done():
			late(value, err)
		}
	}()
	select {
	case got := <-results:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func caught[T any](connect func() (T, error)) (value T, err error) {
	defer CatchPanic(&err)
	return connect()
}

// CatchPanic makes a panic of what defers it an error. On a goroutine of a Driver's own nobody
// else could: clients call dialers and hooks of the application's there.
//
//	defer driver.CatchPanic(&err)
func CatchPanic(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("the client panicked: %v", cause)
	}
}
