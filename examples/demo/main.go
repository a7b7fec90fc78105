// Demo shows what a lock over five nodes bears, and what it does not. The nodes are
// embedded, and all that it prints has happened.
//
//	go run ./demo
//	go run ./demo -command /usr/bin/quorumlock                     # with a second act
//	go run ./demo -command /usr/bin/quorumlock -record docs/demo   # and a picture of it
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

func main() {
	if err := perform(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func (s *story) take() error {
	began := time.Now()
	lock, err := s.alice.Acquire(context.Background(), key, redlock.WithoutRenewal()) // she extends it herself
	if err != nil {
		return err
	}
	s.lock = lock
	s.say("She has it after %v, for %v. Three votes of five were enough, so she did not wait for the slowest two. By now all have come:", since(began), left(lock))
	err = wait("a vote is missing", func() bool {
		return !slices.ContainsFunc(lock.Votes(), func(v redlock.Vote) bool { return v.Answer == "pending" })
	})
	s.votes(lock.Votes())
	return err
}

// refuse lets Bob try, in vain. Where two nodes are down a try may fail before all of the others have
// said whose the key is: then he repeats it.
func (s *story) refuse() error {
	var began time.Time
	var err error
	late := wait("Bob is not told whose the lock is", func() bool {
		began = time.Now()
		_, err = s.bob.TryAcquire(context.Background(), key)
		return err == nil || errors.Is(err, redlock.ErrTaken)
	})
	switch {
	case late != nil:
		return errors.Join(late, err)
	case err == nil:
		return errors.New("the nodes gave Bob the lock, too")
	}
	s.say("Bob tries to take it, and gets this error after %v:", since(began))
	s.quote(err)
	return nil
}

func (s *story) loseTwo() error {
	s.servers[0].Stop()
	s.servers[1].Stop()
	held, err := s.lock.Confirm(context.Background())
	if err != nil {
		return err
	}
	if !held {
		return errors.New("the nodes say that Alice does not hold the lock any more")
	}
	began := time.Now()
	if err := s.lock.Extend(context.Background(), lease); err != nil {
		return err
	}
	s.say("Nodes 1 and 2 are gone. Alice asks the others: she still holds the lock. She extends it, too. That takes %v, and the lock is hers for another %v.", since(began), left(s.lock))
	return s.refuse()
}

func (s *story) loseThree() error {
	s.servers[2].Stop()
	began := time.Now()
	err := s.lock.Extend(context.Background(), lease)
	switch {
	case err == nil:
		return errors.New("two nodes of five have extended the lock")
	case !errors.Is(err, redlock.ErrNoQuorum):
		return err
	}
	s.say("Two nodes of five are no majority: nobody can take or extend a lock now. Alice tries to, and gets this error after %v:", since(began))
	s.quote(err)
	if !s.lock.Valid() {
		return errors.New("the lock was lost before its lease was over")
	}
	s.say("Nothing is lost yet: the lock is hers for another %v. If no node is back by then, the context of her work ends.", left(s.lock))
	return nil
}

func (s *story) comeBack() error {
	if err := errors.Join(s.servers[0].Start(), s.servers[1].Start(), s.servers[2].RestartEmpty()); err != nil {
		return err
	}
	began := time.Now()
	err := wait("no extension succeeds", func() bool { return s.lock.Extend(context.Background(), lease) == nil })
	if err != nil {
		return err
	}
	s.say("Nodes 1 and 2 have their keys still, and node 3 is empty. Alice repeats her extension until it succeeds, which takes %v. The lock is hers for another %v.", since(began), left(s.lock))
	err = wait("node 3 has not got the key", func() bool {
		token, _ := s.servers[2].Get(key)
		return token == s.lock.Token()
	})
	if err != nil {
		return err
	}
	s.say("The extension has also set the key on node 3 again.")
	return nil
}

func (s *story) handOver() error {
	var got time.Time
	var bobs *redlock.Lock
	failed := make(chan error, 1)
	go func() {
		var err error
		bobs, err = s.bob.Acquire(context.Background(), key, redlock.WithMaxWait(lease))
		got = time.Now()
		failed <- err
	}()
	if err := wait("Bob does not wait for the lock", func() bool { return s.bob.Stats().Waiting == 1 }); err != nil {
		return err
	}
	work := s.lock.Context()
	began := time.Now()
	if err := s.lock.Release(); err != nil {
		return err
	}
	released := since(began)
	if err := <-failed; err != nil {
		return err
	}
	s.say("Bob waits in his Acquire. Alice's release first ends the context of her work (the cause: %v), and takes %v. Bob has the lock %v after she began.",
		context.Cause(work), released, round(got.Sub(began)))

	if err := bobs.Release(); err != nil {
		return err
	}
	err := wait("a key is left", func() bool {
		return !slices.ContainsFunc(s.servers, func(server *redlocktest.Node) bool { return len(server.Keys()) > 0 })
	})
	if err != nil {
		return err
	}
	s.say("Bob releases it as well, and no key is left on any node.")
	return nil
}

const (
	key   = "orders:42"
	lease = 10 * time.Second
)

// A story is told in steps.
type story struct {
	page
	servers    redlocktest.Nodes
	alice, bob *redlock.Locker
	lock       *redlock.Lock // Alice's
	operator   *operator     // of the second act
	told       int           // steps
}

// A step fails where things do not go as it says.
type step struct {
	title string
	tell  func() error
}

func (s *story) tell() error {
	s.say("Five Redis nodes run, each on its own: no replicas, no cluster. Alice and Bob are two services that want the same lock, %q. Alice uses go-redis, and Bob redigo.", key)
	return s.steps([]step{
		{"Alice takes the lock", s.take},
		{"Bob is refused", s.refuse},
		{"Two nodes are killed", s.loseTwo},
		{"A third node is killed", s.loseThree},
		{"The nodes come back", s.comeBack},
		{"Alice releases the lock, and Bob, who waits, gets it", s.handOver},
	})
}

func (s *story) steps(steps []step) error {
	for _, step := range steps {
		s.told++
		s.log.Printf("\n%d. %s\n\n", s.told, step.title)
		if err := step.tell(); err != nil {
			return fmt.Errorf("step %d: %w", s.told, err)
		}
	}
	return nil
}

// wait waits for what nobody announces. If it has not come in one lease, the error
// says what is wrong.
func wait(wrong string, come func() bool) error {
	for end := time.Now().Add(lease); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if come() {
			return nil
		}
	}
	return errors.New(wrong)
}

func since(began time.Time) time.Duration { return round(time.Since(began)) }

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func left(lock *redlock.Lock) time.Duration {
	return time.Until(lock.Until()).Round(10 * time.Millisecond)
}
