package main

import (
	"strings"
	"testing"
)

func TestResult(t *testing.T) {
	const ran = `{"Action":"output","Package":"p","Output":"integration: processes (redis 7.0.15) ran; containers: NOT RUN\n"}`
	for _, tt := range []struct {
		name    string
		events  []string
		passed  int
		failed  int
		skipped string
		fault   string
	}{
		{
			name: "only tests without tests of their own count",
			events: []string{
				`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"A/x/1"}`,
				`{"Action":"pass","Package":"p","Test":"A/x/1"}`, `{"Action":"pass","Package":"p","Test":"A"}`,
				ran, `{"Action":"pass","Package":"p"}`,
			},
			passed: 1,
		},
		{
			name: "a group fails once",
			events: []string{
				`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"run","Package":"p","Test":"A/1"}`,
				`{"Action":"fail","Package":"p","Test":"A/1"}`, `{"Action":"fail","Package":"p","Test":"A"}`,
				ran, `{"Action":"fail","Package":"p"}`,
			},
			failed: 1, fault: "1 tests failed",
		},
		{
			name:   "a package that does not start",
			events: []string{`{"Action":"output","Package":"p","Output":"panic"}`, `{"Action":"fail","Package":"p"}`},
			failed: 1, fault: "1 tests failed",
		},
		{
			name: "a skip says why",
			events: []string{
				`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"output","Package":"p","Test":"A","Output":"no gcc\n"}`,
				`{"Action":"skip","Package":"p","Test":"A"}`, ran, `{"Action":"pass","Package":"p"}`,
			},
			skipped: "A: no gcc", fault: "no test ran",
		},
		{
			name: "nobody knows on what",
			events: []string{
				`{"Action":"run","Package":"p","Test":"A"}`, `{"Action":"pass","Package":"p","Test":"A"}`, `{"Action":"pass","Package":"p"}`,
			},
			passed: 1, fault: "which server",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newResult("x")
			if err := r.read(strings.NewReader(strings.Join(tt.events, "\n"))); err != nil {
				t.Fatal(err)
			}
			if skipped := strings.Join(r.skipped, "; "); r.passed != tt.passed || r.failed != tt.failed || skipped != tt.skipped {
				t.Errorf("%d passed, %d failed, skipped %q, want %d, %d, %q", r.passed, r.failed, skipped, tt.passed, tt.failed, tt.skipped)
			}
			if err := r.verdict(); (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("verdict = %v, want %q", err, tt.fault)
			}
		})
	}
}
