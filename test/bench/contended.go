package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// crowded is how many goroutines want one key.
const crowded = 64

var contended = Case{
	Name: "contended",
	About: "goroutines that all want one key, and hold it for 1 ms each; in windows of 3 s; " +
		"a node's commands are those for one acquisition, with what scripts do and all tries",
	Columns: crowdColumns,
	Run:     runContended,
}

func runContended(ctx context.Context, b *Bench, t *Table) error {
	return b.waiting().turns(ctx, t, b.fewerRounds(), []int{crowded}, func(c Contender, goroutines int) error {
		session, err := c.Open(b.Site.Addrs(), Setup{Goroutines: goroutines, TTL: ttl})
		if err != nil {
			return err
		}
		crowd := startCrowd(ctx, session, crowdKey(), goroutines, shortWork)
		window, commands, err := b.watch(ctx)
		members := crowd.Stop()
		b.end(session)
		if err == nil {
			t.Add(Key{Contender: c.Name(), Goroutines: goroutines}, b.account(members, window, commands))
		}
		return errors.Join(err, b.Site.Flush())
	})
}

func crowdKey() string { return fmt.Sprintf("bench:%016x", time.Now().UnixNano()) }

// watch gives crowds the time to get going and then to be measured. It counts the
// commands that a node runs meanwhile.
func (b *Bench) watch(ctx context.Context) (w Window, commands float64, err error) {
	return b.watchDuring(ctx, func() (func() error, error) { return func() error { return nil }, nil })
}

// watchDuring is watch during what trouble does, and undoes.
func (b *Bench) watchDuring(ctx context.Context, trouble func() (undo func() error, err error)) (w Window, commands float64, err error) {
	warm, long := time.Second, 3*time.Second
	if b.Quick {
		warm, long = 200*time.Millisecond, 300*time.Millisecond
	}
	if err := pause(ctx, warm); err != nil {
		return w, 0, err
	}
	commands, err = b.Site.commandsDuring(func() error {
		undo, err := trouble()
		if err != nil {
			return err
		}
		w.from = now()
		err = pause(ctx, long)
		w.to = now()
		return errors.Join(err, undo())
	})
	return w, commands, err
}

// account is the tally, with the commands for one acquisition.
func (b *Bench) account(members []Member, w Window, commands float64) map[string]float64 {
	values := tally(members, w)
	values["commands"] = commands / (values["acquisitions"] * w.to.sub(w.from).Seconds())
	for _, m := range members {
		if m.Err != "" {
			b.Log.Printf("\t%.0f failed, one of the first: %s", values["failed"], m.Err)
			break
		}
	}
	return values
}
