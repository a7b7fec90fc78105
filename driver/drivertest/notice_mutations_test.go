package drivertest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

func confirmsEarly(ctx context.Context, p *pool, onNotice func(driver.Notice)) (driver.Subscription, error) {
	var mu sync.Mutex // one call of onNotice at a time
	l, err := p.listen(ctx, func(n driver.Notice) {
		mu.Lock()
		defer mu.Unlock()
		if n.Kind != driver.Confirmed {
			onNotice(n)
		}
	})
	if err != nil {
		return nil, err
	}
	return &altered{listener: l, add: func(ctx context.Context, channels ...string) error {
		mu.Lock()
		for _, channel := range channels {
			onNotice(driver.Notice{Kind: driver.Confirmed, Channel: channel})
		}
		mu.Unlock()
		return l.Add(ctx, channels...)
	}}, nil
}

func losesMessage(onNotice func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Payload != "500" {
			onNotice(n)
		}
	}
}

func reordersMessages(onNotice func(driver.Notice)) func(driver.Notice) {
	var kept []driver.Notice
	return func(n driver.Notice) {
		if n.Payload == "500" {
			kept = append(kept, n)
			return
		}
		onNotice(n)
		for _, n := range kept {
			onNotice(n)
		}
		kept = nil
	}
}

func trimsPayload(onNotice func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		n.Payload = strings.TrimSpace(n.Payload)
		onNotice(n)
	}
}

func duplicatesMessages(onNotice func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		onNotice(n)
		if n.Kind == driver.Message {
			onNotice(n)
		}
	}
}

func endsTwice(onNotice func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		onNotice(n)
		if n.Kind == driver.Ended {
			onNotice(n)
		}
	}
}

func neverEnds(onNotice func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Kind != driver.Ended {
			onNotice(n)
		}
	}
}

func endsWithoutReason(onNotice func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Kind == driver.Ended {
			n.Err = nil
		}
		onNotice(n)
	}
}

func hidesRefusals(onNotice func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Kind == driver.Refused {
			n.Err = errors.New("refused")
		}
		onNotice(n)
	}
}

// notifiesAtOnce calls onNotice on a goroutine for each message, fifty at a time.
func notifiesAtOnce(onNotice func(driver.Notice)) func(driver.Notice) {
	var calls sync.WaitGroup
	notices := 0
	return func(n driver.Notice) {
		calls.Go(func() { onNotice(n) })
		if notices++; n.Payload != "message" || notices%50 == 0 {
			calls.Wait()
		}
	}
}
