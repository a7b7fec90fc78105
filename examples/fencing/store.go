package main

import (
	"context"
	"fmt"
)

// A store keeps an account, and the greatest fence that it was shown. It refuses a smaller
// one with a [fence.StaleError]. Without fences all of them are 0, and so is what it has:
// then everything is accepted, as by a store that knows nothing of fences. One that relies
// on them would refuse 0 as well.
type store interface {
	// create makes the account.
	create(ctx context.Context, balance int) error
	// balance looks at the account, and leaves the fence as it is.
	balance(ctx context.Context) (int, error)
	// read is for who is going to write. It shows the fence already, so that nobody with a
	// smaller one writes between this read and the write that follows from it.
	read(ctx context.Context, fence int64) (balance int, err error)
	// write shows the fence, and sets the balance if it is not refused.
	write(ctx context.Context, balance int, fence int64) error
	// remove is the end of the account.
	remove(ctx context.Context) error
	Close() error
}

// open returns the store of that kind which has its account in that place. In Redis it is
// at the first of the nodes.
func open(kind, place string, urls []string) (store, error) {
	switch kind {
	case "sqlite":
		return openSQLite(place)
	case "redis":
		return openRedis(urls[0], place)
	}
	return nil, fmt.Errorf("--store %q: want sqlite or redis", kind)
}
