package main

import (
	"strings"
	"testing"
)

func TestTheVerdictIsTheFirstFailureAndWhatItSays(t *testing.T) {
	for _, tt := range []struct {
		name, output string
		want         verdict
	}{
		{"all pass", "=== RUN   TestA\n    a_test.go:1: a log\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n--- PASS: TestB (0.00s)\nPASS\n", verdict{passed: 2}},
		{"nothing runs", "testing: warning: no tests to run\nPASS\n", verdict{}},
		{
			"a failure", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n    b_test.go:2: one\n    b_test.go:3: two\n--- FAIL: TestB (0.00s)\n--- FAIL: TestC (0.00s)\n",
			verdict{test: "TestB", complaint: "b_test.go:2: one", passed: 1},
		},
		{
			"a part of a test", "=== RUN   TestA\n=== RUN   TestA/part\n    a_test.go:2: one\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/part (0.00s)\n",
			verdict{test: "TestA", complaint: "a_test.go:2: one"},
		},
		{"a panic in a test", "=== RUN   TestA\n--- FAIL: TestA (0.00s)\npanic: oops [recovered]\n", verdict{test: "TestA", complaint: "panic: oops [recovered]"}},
		{"a panic beside it", "=== RUN   TestA\npanic: oops\n\ngoroutine 7 [running]:\n", verdict{test: "TestA", complaint: "panic: oops"}},
		{"a deadlock", "=== RUN   TestA\nfatal error: all goroutines are asleep - deadlock!\n", verdict{test: "TestA", complaint: "fatal error: all goroutines are asleep - deadlock!"}},
		{
			"a hang", "=== RUN   TestA\npanic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n",
			verdict{test: "TestA", complaint: "panic: test timed out after 1s", hung: true},
		},
	} {
		if got := *listen(strings.NewReader(tt.output)); got != tt.want {
			t.Errorf("%s: the verdict is %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
