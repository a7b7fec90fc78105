package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

// split returns the commands, by index, of each server.
func split(homes []*server) map[*server][]int {
	shares := make(map[*server][]int, 1)
	for i, home := range homes {
		shares[home] = append(shares[home], i)
	}
	return shares
}

// scatter sends each server its share, all at once. What comes back is cut at the
// first command without a reply, for replies are in order or not known.
func (c *cluster) scatter(ctx context.Context, cmds []driver.Command, shares map[*server][]int) ([]driver.Reply, error) {
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex
		replies = make([]driver.Reply, len(cmds))
		arrived = make([]bool, len(cmds))
		failed  []error
	)
	for home, share := range shares {
		wait.Go(func() {
			part := make([]driver.Command, len(share))
			for i, at := range share {
				part[i] = cmds[at]
			}
			got, err := home.do(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			for i, reply := range got {
				replies[share[i]], arrived[share[i]] = reply, true
			}
			if err != nil {
				failed = append(failed, err)
			}
		})
	}
	wait.Wait()

	for i, ok := range arrived {
		if !ok {
			replies = replies[:i]
			break
		}
	}
	if len(failed) == 0 {
		return replies, nil
	}
	// ErrNotSent needs that nothing has left for any master; the context's end needs only
	// one of them.
	unsent := len(failed) == len(shares) &&
		!slices.ContainsFunc(failed, func(err error) bool { return !errors.Is(err, driver.ErrNotSent) })
	all, why := errors.Join(failed...), failed[0]
	switch {
	case errors.Is(all, context.DeadlineExceeded):
		why = context.DeadlineExceeded
	case errors.Is(all, context.Canceled):
		why = context.Canceled
	case !unsent && errors.Is(why, driver.ErrNotSent):
		why = errors.New(why.Error())
	}
	err := fmt.Errorf("%d of %d masters of the cluster: %w", len(failed), len(shares), why)
	if unsent {
		err = driver.NotSent(err)
	}
	return replies, err
}
