package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/redlock"
)

// terms records who led when, to see that terms do not overlap.
type terms struct {
	mu     sync.Mutex
	leads  string
	order  []string
	ids    []string // what observers tell the terms apart by
	fences []int64
}

func (r *terms) begin(s *site, value string, term *election.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leads != "" {
		s.Errorf("%s is elected while %s leads", value, r.leads)
	}
	if len(r.fences) > 0 && term.Fence() <= slices.Max(r.fences) {
		s.Errorf("%s is elected for term %d behind %v", value, term.Fence(), r.fences)
	}
	sum := sha256.Sum256([]byte(redlock.FromContext(term.Context()).Token()))
	r.leads, r.order, r.fences = value, append(r.order, value), append(r.fences, term.Fence())
	r.ids = append(r.ids, hex.EncodeToString(sum[:8]))
}

func (r *terms) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = ""
}

// An observer would see a leader without a value: a token of one's own has no room for it.
func TestACampaignWithATokenOfOnesOwnIsRefusedBeforeAnythingIsSent(t *testing.T) {
	asked := new(atomic.Int32)
	locker := newLocker(t, []driver.Node{{Name: "none", Driver: counted{asked}}}, redlock.WithOwner("a default"))
	e := election.New(locker, "leader")
	options := []redlock.AcquireOption{redlock.WithToken("request-42")}
	lead := func(context.Context, *election.Term) error { return errors.New("elected") }
	_, campaign := e.Campaign(t.Context(), "a default", options...)
	for how, err := range map[string]error{"Campaign": campaign, "Run": e.Run(t.Context(), "web-7", lead, options...)} {
		var option *redlock.OptionError
		if !errors.As(err, &option) || option.Option != "Token" {
			t.Errorf("%s WithToken = %v, want an OptionError about Token", how, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the node was sent %d batches", n)
	}
}

// A counted node is asked for nothing but how often.
type counted struct{ asked *atomic.Int32 }

func (c counted) Do(context.Context, []driver.Command) ([]driver.Reply, error) {
	c.asked.Add(1)
	return nil, driver.ErrNotSent
}

// Five candidates in as many processes lead one after the other, each once, while a node dies.
// Observers see the same order, though not each term, and never go back. A campaign that gave up a
// moment before its votes were a quorum they may see as well.
func TestCandidatesLeadOneAfterTheOther(t *testing.T) {
	onEachOnce(t, func(s *site) {
		const candidates = 5
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		var seen []election.Leader
		observed, ready, leaders := make(chan struct{}), make(chan struct{}), make(chan election.Leader, 1000)
		go func() {
			defer close(observed)
			for leader, err := range election.New(s.locker(), s.key).Observe(ctx) {
				if err != nil {
					continue
				}
				if seen == nil {
					close(ready)
				}
				seen = append(seen, leader)
				leaders <- leader
			}
		}()
		<-ready
		var record terms
		var all sync.WaitGroup
		var lockers []*redlock.Locker
		for range candidates {
			lockers = append(lockers, s.locker(redlock.WithFences()))
		}
		second := make(chan struct{})
		for i, locker := range lockers {
			value := string(rune('a' + i))
			all.Go(func() {
				err := election.New(locker, s.key).Run(s.Context(), value, func(ctx context.Context, term *election.Term) error {
					record.begin(s, value, term) //nolint:contextcheck // the term has its own
					defer record.end()
					if len(record.order) == 2 {
						close(second)
					}
					over := time.After(30 * time.Millisecond)
					if len(record.order) == candidates { // as long as the last one leads, there is somebody to see
						over = nil
					}
					for led := false; !led; {
						select {
						case <-over:
							led = true
						case l := <-leaders:
							led = over == nil && l.Term == record.ids[candidates-1]
						case <-ctx.Done():
							s.Errorf("%s has lost its term: %v", value, context.Cause(ctx))
							led = true
						}
					}
					return nil
				})
				if err != nil {
					s.Errorf("Run of %s = %v", value, err)
				}
			})
		}
		<-second
		s.kill(0)
		all.Wait()
		cancel()
		<-observed
		if got := slices.Sorted(slices.Values(record.order)); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
			s.Errorf("%q have led, want each candidate once", record.order)
		}
		at := -1
		for _, leader := range seen {
			switch i := slices.Index(record.ids, leader.Term); {
			case i < 0: // nobody, or one who never led
			case i <= at || leader.Value != record.order[i]:
				s.Errorf("the observer saw %v, while %q led in this order, as %q", seen, record.order, record.ids)
			default:
				at = i
			}
		}
	})
}

// A leader that dies without a word is followed when its lease ends, and no sooner.
func TestALeaderThatDiesIsFollowedWhenItsLeaseEnds(t *testing.T) {
	onEachOnce(t, func(s *site) {
		options := []redlock.Option{redlock.WithTTL(2 * time.Second), redlock.WithNodeTimeout(brief)}
		dying, next := s.locker(options...), s.locker(options...)
		// Nothing is renewed, and nothing is resigned.
		first, err := election.New(dying, s.key).Campaign(s.Context(), "first", redlock.WithMaxHold(2*time.Second))
		s.must(err)
		second, err := election.New(next, s.key).Campaign(s.Context(), "second")
		s.must(err)
		if first.Leads() {
			s.Error("two lead at once")
		}
		if err := second.Resign(); err != nil {
			s.Error(err)
		}
		s.fails(first.Resign(), redlock.ErrLost, "Resign of a term that is over")
		s.fails(failed(election.New(next, s.key).Campaign(s.Context(), "")), redlock.ErrOption, "Campaign without a value")
	})
}
