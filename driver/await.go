package driver

import "context"

// Await calls connect on a goroutine of its own, because many a client's way to connect takes
// no context, and returns what connect returns. Where ctx ends before, it returns ctx's error, and late
// gets the result once there is one.
func Await[T any](ctx context.Context, connect func() (T, error), late func(T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result)
	go func() {
		value, err := connect()
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
