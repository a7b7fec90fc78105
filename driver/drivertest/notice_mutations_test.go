package drivertest

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/quorumlock/quorumlock/driver"
)

func confirmsEarly(ctx context.Context, p *pool, hear func(driver.Notice)) (driver.Subscription, error) {
	var mu sync.Mutex // one call of hear at a time
	l, err := p.listen(ctx, func(n driver.Notice) {
		mu.Lock()
		defer mu.Unlock()
		if n.Kind != driver.Confirmed {
			hear(n)
		}
	})
	if err != nil {
		return nil, err
	}
	return &bent{listener: l, add: func(ctx context.Context, channels ...string) error {
		mu.Lock()
		for _, channel := range channels {
			hear(driver.Notice{Kind: driver.Confirmed, Channel: channel})
		}
		mu.Unlock()
		return l.Add(ctx, channels...)
	}}, nil
}

func losesMessage(hear func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Payload != "500" {
			hear(n)
		}
	}
}

func reordersMessages(hear func(driver.Notice)) func(driver.Notice) {
	var kept []driver.Notice
	return func(n driver.Notice) {
		if n.Payload == "500" {
			kept = append(kept, n)
			return
		}
		hear(n)
		for _, n := range kept {
			hear(n)
		}
		kept = nil
	}
}

func trimsPayload(hear func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		n.Payload = strings.TrimSpace(n.Payload)
		hear(n)
	}
}

func hearsTwice(hear func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		hear(n)
		if n.Kind == driver.Message {
			hear(n)
		}
	}
}

func endsTwice(hear func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		hear(n)
		if n.Kind == driver.Ended {
			hear(n)
		}
	}
}

func neverEnds(hear func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Kind != driver.Ended {
			hear(n)
		}
	}
}

func endsWithoutReason(hear func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Kind == driver.Ended {
			n.Err = nil
		}
		hear(n)
	}
}

func hidesRefusals(hear func(driver.Notice)) func(driver.Notice) {
	return func(n driver.Notice) {
		if n.Kind == driver.Refused {
			n.Err = errors.New("refused")
		}
		hear(n)
	}
}

// hearsAtOnce calls hear from a goroutine for each message, fifty at a time.
func hearsAtOnce(hear func(driver.Notice)) func(driver.Notice) {
	var calls sync.WaitGroup
	heard := 0
	return func(n driver.Notice) {
		calls.Go(func() { hear(n) })
		if heard++; n.Payload != "message" || heard%50 == 0 {
			calls.Wait()
		}
	}
}
