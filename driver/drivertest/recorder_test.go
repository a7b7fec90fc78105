package drivertest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder is a reporter that notes failures instead of failing a test.
type recorder struct {
	mu       sync.Mutex
	failures []string
	logged   []string // formats
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(format string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logged = append(r.logged, format)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// Fatalf ends the goroutine of the case, as it does in a test.
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// watch runs a part of the suite, clean-up included, and returns what it complains of.
func watch(run func(r reporter)) []string {
	r := &recorder{}
	var ran sync.WaitGroup
	ran.Go(func() {
		defer func() {
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		run(r)
	})
	ran.Wait()
	return r.failures
}

// caseNamed finds a case by its phrase.
func caseNamed(t *testing.T, name string) testCase {
	t.Helper()
	all := slices.Concat(cases, subscriberCases, renewerCases, renewedSubscriptionCases)
	i := slices.IndexFunc(all, func(c testCase) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("the suite has no case %q", name)
	}
	return all[i]
}

// anyHas reports whether one of the complaints has these words.
func anyHas(complaints []string, words string) bool {
	return slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(c, words) })
}
