package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/internal/protocol"
)

func TestAStormOfReadersCostsANodeLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const storm = 10_000
		locker, fakes := newLocker(t, 3, WithFences(), WithNodeTimeout(time.Second))
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = time.Millisecond })
		}
		_ = mustShare(t, locker, "k").Release(t.Context()) // the scripts are there from now on
		_ = mustShare(t, locker, "k").Release(t.Context())
		synctest.Wait()
		before := fakes[0].count("EVALSHA")
		var group sync.WaitGroup
		locks := make([]*SharedLock, storm)
		for i := range locks {
			group.Go(func() {
				var err error
				if locks[i], err = locker.TryAcquireShared(t.Context(), "k"); err != nil {
					t.Errorf("TryAcquireShared = %v", err)
				}
			})
		}
		group.Wait()
		time.Sleep(time.Second) // the last nodes answer
		calls := fakes[0].count("EVALSHA") - before
		if most := storm/protocol.MaxGroup + 100; calls > most {
			t.Errorf("%d readers took %d calls of a node, want no more than %d", storm, calls, most)
		}
		if got := len(fakes[0].sharers()); got != storm {
			t.Errorf("a node has %d readers, want %d", got, storm)
		}
		before = fakes[0].count("EVALSHA")
		for _, lock := range locks {
			group.Go(func() {
				if err := lock.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
		}
		group.Wait()
		time.Sleep(time.Second) // the last nodes answer
		if most, calls := storm/protocol.MaxGroup+100, fakes[0].count("EVALSHA")-before; calls > most {
			t.Errorf("%d releases took %d calls of a node, want no more than %d", storm, calls, most)
		}
		if names := stray(fakes, "k"); names != nil {
			t.Errorf("the key is left at %v", names)
		}
	})
}

func TestReadersOfOneProcessDoNotTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		_ = mustShare(t, locker, "k").Release(t.Context())
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 10 * time.Millisecond })
		}
		began := time.Now()
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				lock, err := locker.AcquireShared(t.Context(), "k")
				if err != nil {
					t.Error(err)
					return
				}
				_ = lock.Release(t.Context())
			})
		}
		group.Wait()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("64 readers took %v for what takes one 20 ms", took)
		}
	})
}

func TestReadersInLineGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Minute))
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.delay = 10 * time.Millisecond })
		}
		writer := mustAcquire(t, locker, "k")
		var readers, all sync.WaitGroup
		for range 64 {
			readers.Add(1)
			all.Go(func() {
				lock, err := locker.AcquireShared(t.Context(), "k")
				readers.Done()
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				_ = lock.Release(t.Context())
			})
		}
		time.Sleep(time.Second)
		behind := waitFor(t.Context(), locker)
		began := time.Now()
		mustRelease(t, writer)
		readers.Wait()
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("64 readers in line came to the key in %v", took)
		}
		result := <-behind
		if took := time.Since(began); result.err != nil || took > 1300*time.Millisecond {
			t.Errorf("the writer behind them waited for %v: %v", took, result.err)
		}
		all.Wait()
	})
}

func TestNodesWithoutScriptsRefuseReadersInWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, f := range fakes {
			f.change(func(f *fakeNode) { f.scriptless = true })
		}
		_, err := locker.AcquireShared(t.Context(), "k")
		if !errors.Is(err, ErrNode) || !strings.Contains(err.Error(), "allow +eval +evalsha") {
			t.Errorf("AcquireShared without scripts = %v, want ErrNode and what to allow", err)
		}
		writer := mustAcquire(t, locker, "k")
		if reader, err := writer.Downgrade(t.Context()); !errors.Is(err, ErrNode) || reader != nil || !writer.Valid() {
			t.Errorf("Downgrade without scripts = %v, %v, and the writer is valid: %v", reader, err, writer.Valid())
		}
	})
}

func TestScriptsThatAreAllowedLaterAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		locker, fakes := newLocker(t, 3, seen.option())
		forbid := func(yes bool) {
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.scriptless = yes })
			}
		}
		forbid(true)
		if _, err := locker.AcquireShared(t.Context(), "k"); !errors.Is(err, ErrNode) {
			t.Fatalf("AcquireShared without scripts = %v, want ErrNode", err)
		}
		forbid(false)
		began := time.Now()
		reader, err := locker.AcquireShared(t.Context(), "k")
		for err != nil {
			if time.Since(began) > 2*time.Second {
				t.Fatalf("AcquireShared 2s after scripts were allowed = %v", err)
			}
			time.Sleep(100 * time.Millisecond)
			reader, err = locker.AcquireShared(t.Context(), "k")
		}
		synctest.Wait()
		if news := seen.kinds(); news[len(news)-1] != NodeUp {
			t.Errorf("the events are %v, want NodeUp at the end", news)
		}
		if err := reader.Release(t.Context()); err != nil {
			t.Error(err)
		}
		all, err := locker.TryAcquireAll(t.Context(), []string{"a", "b"})
		if err != nil {
			t.Fatalf("TryAcquireAll after scripts were allowed = %v", err)
		}
		if err := all.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestReservedTokensAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		for _, token := range []string{protocol.SharedValue, "ql:", "ql:mine"} {
			calls := fakes[0].batches()
			_, err1 := locker.TryAcquire(t.Context(), "k", WithToken(token))
			_, err2 := locker.TryAcquireShared(t.Context(), "k", WithToken(token))
			for _, err := range []error{err1, err2} {
				var option *OptionError
				if !errors.As(err, &option) || option.Option != "Token" {
					t.Errorf("an acquire with the token %q = %v, want an OptionError", token, err)
				}
			}
			if fakes[0].batches() != calls {
				t.Error("something was sent")
			}
		}
	})
}

func TestAReaderWithATokenOfItsOwnFindsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		first := mustShare(t, locker, "k", WithToken("request-42"))
		again := mustShare(t, another(t, fakes), "k", WithToken("request-42"))
		if got := fakes[0].sharers(); len(got) != 1 {
			t.Errorf("the readers are %v", got)
		}
		if err := again.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		synctest.Wait()
		if held, err := first.Held(t.Context()); held || err != nil {
			t.Errorf("Held of the same lock = %v, %v", held, err)
		}
	})
}

func TestCarelessUseOfASharedLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, _ := newLocker(t, 3)
		for key, options := range map[string][]AcquireOption{
			"":                         nil,
			strings.Repeat("k", 1<<20): nil,
			"k":                        {WithTTL(time.Nanosecond)},
			"l":                        {nil},
		} {
			if _, err := locker.AcquireShared(t.Context(), key, options...); !errors.Is(err, ErrOption) {
				t.Errorf("AcquireShared(%.10q, %v) = %v, want ErrOption", key, options, err)
			}
			if _, err := locker.TryAcquireShared(t.Context(), key, options...); !errors.Is(err, ErrOption) {
				t.Errorf("TryAcquireShared(%.10q, %v) = %v, want ErrOption", key, options, err)
			}
		}
		lock := mustShare(t, locker, "k")
		for _, shown := range []string{fmt.Sprint(lock), fmt.Sprintf("%v %+v %#v %s", lock, lock, lock, lock)} {
			if strings.Contains(shown, lock.Token()) || !strings.Contains(shown, `shared lock "k", valid for`) {
				t.Errorf("a shared lock shows as %s", shown)
			}
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Error(err)
		}
		for name, do := range map[string]func() error{
			"Release":    func() error { return lock.Release(t.Context()) },
			"Abandon":    lock.Abandon,
			"Extend":     func() error { return lock.Extend(t.Context(), time.Second) },
			"TryUpgrade": func() error { _, err := lock.TryUpgrade(t.Context()); return err },
		} {
			if err := do(); !errors.Is(err, ErrReleased) {
				t.Errorf("%s of a released lock = %v, want ErrReleased", name, err)
			}
		}
		lost := mustShare(t, locker, "k", WithTTL(time.Second))
		time.Sleep(2 * time.Second)
		if _, err := lost.TryUpgrade(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("TryUpgrade of a lost lock = %v, want ErrLost", err)
		}
		writer := mustAcquire(t, locker, "w", WithTTL(time.Second))
		time.Sleep(2 * time.Second)
		if reader, err := writer.Downgrade(t.Context()); !errors.Is(err, ErrLost) || reader != nil {
			t.Errorf("Downgrade of a lost lock = %v, %v, want ErrLost", reader, err)
		}
		held, held2 := mustShare(t, locker, "x"), mustAcquire(t, locker, "y")
		_ = locker.Close()
		if _, err := held.TryUpgrade(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("TryUpgrade behind Close = %v, want ErrClosed", err)
		}
		if reader, err := held2.Downgrade(t.Context()); !errors.Is(err, ErrClosed) || reader != nil {
			t.Errorf("Downgrade behind Close = %v, %v, want ErrClosed", reader, err)
		}
		if _, err := locker.AcquireShared(t.Context(), "k"); !errors.Is(err, ErrClosed) {
			t.Errorf("AcquireShared behind Close = %v, want ErrClosed", err)
		}
	})
}

func TestAReaderThatWasCalledInVainTriesWhenItsTurnComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3, WithTTL(time.Hour))
		other := another(t, fakes)
		writer := mustAcquire(t, other, "k")
		got := make(chan error, 2)
		ask := func(ctx context.Context) {
			_, err := locker.AcquireShared(ctx, "k")
			got <- err
		}
		first, leaves := context.WithCancel(t.Context())
		go ask(first)
		synctest.Wait()
		go ask(t.Context())
		synctest.Wait()
		locker.lines.Call("k") // as if a reader of this process had the key
		synctest.Wait()
		mustRelease(t, writer)
		leaves()
		began := time.Now()
		if one, two := <-got, <-got; one != nil && two != nil {
			t.Errorf("AcquireShared = %v, %v", one, two)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("a reader came to a free key after %v", took)
		}
	})
}
