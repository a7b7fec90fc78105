package goredis_test

import (
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/driver/goredis"
)

// recorder keeps the notices of a subscription.
type recorder chan driver.Notice

// listen subscribes to these channels and waits until that is confirmed.
func listen(t testing.TB, d *goredis.Driver, channels ...string) (driver.Subscription, recorder) {
	t.Helper()
	notices := make(recorder, 100)
	sub, err := d.Subscribe(within(t, patience), func(n driver.Notice) { notices <- n })
	if err != nil {
		t.Fatalf("Subscribe = %v", err)
	}
	t.Cleanup(func() { _ = sub.Close() })
	if err := sub.Add(within(t, patience), channels...); err != nil {
		t.Fatalf("Add = %v", err)
	}
	for _, channel := range channels {
		notices.expect(t, driver.Notice{Kind: driver.Confirmed, Channel: channel})
	}
	return sub, notices
}

func (e recorder) next(t testing.TB) driver.Notice {
	t.Helper()
	select {
	case n := <-e:
		return n
	case <-time.After(10 * time.Second):
		t.Fatal("no notice came for 10s")
		return driver.Notice{}
	}
}

func (e recorder) expect(t testing.TB, want driver.Notice) {
	t.Helper()
	if got := e.next(t); got != want {
		t.Fatalf("received %+v, want %+v", got, want)
	}
}

// ends expects the end, of this cause, and nothing behind it.
func (e recorder) ends(t testing.TB, sub driver.Subscription, cause string) {
	t.Helper()
	if got := e.next(t); got.Kind != driver.Ended || got.Err == nil || got.Err.Error() != cause {
		t.Errorf("received %+v, want that it ended by %q", got, cause)
	}
	if err := sub.Add(within(t, patience), "more"); err == nil || err.Error() != cause {
		t.Errorf("Add after the end = %v, want %q", err, cause)
	}
	e.closes(t, sub)
}

// closes expects that Close returns at once and no notice comes any more.
func (e recorder) closes(t testing.TB, sub driver.Subscription) {
	t.Helper()
	begun := time.Now()
	err := sub.Close()
	if took := time.Since(begun); err != nil || took > most {
		t.Errorf("Close = %v after %v", err, took)
	}
	if len(e) > 0 {
		t.Errorf("received %+v besides", <-e)
	}
}

// most is how late a call may return: 50ms by the contract, the rest for a busy machine.
const most = 2 * time.Second
