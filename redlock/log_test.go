package redlock

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// records returns what was logged, and each record by its message and level.
func records(t *testing.T, log *bytes.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		record := map[string]any{}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		all = append(all, record)
	}
	return all
}

func TestALostLockAndRenewalsThatAreShortOfVotesAreLoggedWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer // one record at a time: see slog.Handler
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), WithHooks(LogTo(slog.New(slog.NewJSONHandler(&log, nil)))))
		lock := mustAcquire(t, locker, "k", WithRenewal())
		short := mustAcquire(t, locker, "released")
		mustRelease(t, short)
		fakes[2].change(func(f *fakeNode) { f.answer = failing("EVALSHA", "LOADING it loads") })
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		warned := 0
		for _, r := range records(t, &log) {
			if r["msg"] == "a renewal is short of votes" && r["level"] == "WARN" {
				warned++
				votes, _ := json.Marshal(r["renewal"])
				if text := string(votes); !strings.Contains(text, fakes[2].name) || strings.Contains(text, fakes[0].name) {
					t.Errorf("the renewal's record is %s, want the node that has not granted it alone", text)
				}
			}
		}
		if warned == 0 {
			t.Errorf("no renewal was logged:\n%s", &log)
		}
		for _, f := range fakes[:2] {
			f.change(func(f *fakeNode) { f.answer = failing("EVALSHA", "LOADING it loads") })
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lost := 0
		for _, r := range records(t, &log) {
			if r["msg"] == "a lock was lost" {
				lost++
				if r["level"] != "ERROR" || r["key"] != "k" || r["kind"] != "exclusive" || r["held_s"] == 0.0 || r["error"] == nil {
					t.Errorf("the record of the loss is %v", r)
				}
			}
		}
		if lost != 1 {
			t.Errorf("the loss of a lock was logged %d times, want once:\n%s", lost, &log)
		}
		for _, token := range []string{lock.Token(), short.Token()} {
			if strings.Contains(log.String(), strings.TrimPrefix(token, "ql:")) {
				t.Errorf("the token %q is in the log:\n%s", token, &log)
			}
		}
	})
}

func TestNewsOfANodeAreLoggedAtMostSoOftenAndTheOthersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tell := LogTo(slog.New(slog.NewJSONHandler(&log, nil))).Node
		const at = "10.0.0.1:6379"
		for range 25 {
			tell(Event{Kind: NodeDown, Node: at})
		}
		tell(Event{Kind: NodeUp, Node: "10.0.0.2:6379"}) // which has a budget of its own
		all := records(t, &log)
		if len(all) != logBurst+1 || all[0]["level"] != "WARN" || all[logBurst]["level"] != "INFO" {
			t.Errorf("of 25 pieces of news at once and one of another node %d are logged, want %d:\n%s", len(all), logBurst+1, &log)
		}
		log.Reset()
		time.Sleep(logPause)
		tell(Event{Kind: NodeDown, Node: at})
		tell(Event{Kind: NodeDown, Node: at})
		if all := records(t, &log); len(all) != 1 || all[0]["omitted"] != 15.0 {
			t.Errorf("%v later the log is\n%swant one record more, that counts the 15 before it", logPause, &log)
		}
	})
}

func TestTheSummaryOfAnErrorIsItsBeginningAndTheSameWhateverTheNodesTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locker, fakes := newLocker(t, 3)
		other := another(t, fakes)
		mustAcquire(t, other, "k", WithTTL(time.Hour))
		summaries := make(map[string]int)
		for i := range 5 {
			for _, f := range fakes {
				f.change(func(f *fakeNode) { f.delay = time.Duration(i) * time.Millisecond })
			}
			_, once := locker.TryAcquire(t.Context(), "k")
			_, often := locker.Acquire(t.Context(), "k", WithMaxWait(time.Duration(i)*time.Second))
			for _, err := range []error{once, often} {
				summary := Summary(err)
				summaries[summary]++
				if !strings.HasPrefix(err.Error(), summary) || len(summary) > 60 {
					t.Errorf("the summary of %q is %q", err, summary)
				}
			}
		}
		if len(summaries) != 1 {
			t.Errorf("errors that are alike have the summaries %v", summaries)
		}
	})
}

func TestALogHasNoAddressesForKeysNoBareDurationsAndNoZeroes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		locker, fakes := newLocker(t, 3, WithTTL(3*time.Second), WithHooks(LogTo(slog.New(slog.NewJSONHandler(&log, nil)))))
		mustAcquire(t, locker, "k", WithRenewal())
		synctest.Wait()
		for _, f := range fakes[1:] {
			f.stop()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		_, err := another(t, fakes).Acquire(t.Context(), "k", WithMaxWait(time.Second))
		slog.New(slog.NewJSONHandler(&log, nil)).Error("no lock", "error", err)
		text := log.String()
		for _, want := range []string{`"held_s":`, `"lasted_s":`, `"waited_s":`, `"summary":"redlock: renew \"k\": lock lost"`, `"votes":["node-1: `} {
			if !strings.Contains(text, want) {
				t.Errorf("the log has no %s:\n%s", want, text)
			}
		}
		for _, wrong := range []string{`"omitted":0`, `"node-1":`, `"node-2":`, `"held":`, `"lasted":`, `"waited":`, `ms)`} {
			if strings.Contains(text, wrong) {
				t.Errorf("the log has %s:\n%s", wrong, text)
			}
		}
		for _, f := range fakes[1:] {
			f.resume()
		}
	})
}
