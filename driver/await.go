package driver

import "context"

// Await calls connect on a goroutine of its own and returns its result. If ctx ends first, it
// returns ctx's error, and late receives the result once there is one. Most clients connect
// without a context, or with a dialer that ignores it.
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
