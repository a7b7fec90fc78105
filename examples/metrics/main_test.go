package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// An output is what the program has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{} // closed when all jobs are done
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.Contains(string(p), "All jobs are done.") {
		close(o.done)
	}
	return o.text.Write(p)
}

func (o *output) url() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return regexp.MustCompile(`http://\S+/metrics`).FindString(o.text.String())
}

// scrape reads a page as Prometheus does.
func scrape(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s = %s, %v", url, answer.Status, err)
	}
	return families
}

// sum adds up the values of a metric, of histograms their counts, of all time series with this label.
func sum(family *dto.MetricFamily, label, value string) (total float64, series int) {
	for _, m := range family.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label && l.GetValue() == value || label == "" {
				series++
				total += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				break
			}
		}
	}
	return total, series
}

func TestThePageHasWhatTheWorkersDid(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := &output{done: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, out, []string{"--listen", "127.0.0.1:0", "--workers", "4", "--jobs", "5", "--job", "5ms"})
	}()
	select {
	case <-out.done:
	case err := <-ended:
		t.Fatalf("run = %v, before its jobs are done", err)
	}
	families := scrape(t, out.url())
	for _, tt := range []struct {
		metric, label, value string
		want                 float64
	}{
		{"redlock_acquire_duration_seconds", "redlock_outcome", "acquired", 20},
		{"redlock_acquire_duration_seconds", "redlock_key_name", "orders", 20},
		{"redlock_acquire_tries", "redlock_outcome", "acquired", 20},
		{"redlock_hold_duration_seconds", "redlock_end", "released", 20},
		{"redlock_release_duration_seconds", "redlock_outcome", "released", 20},
		{"redlock_locks", "", "", 0},
		{"redlock_waiters", "", "", 0},
	} {
		got, series := sum(families[tt.metric], tt.label, tt.value)
		if got != tt.want || series == 0 {
			t.Errorf("%s{%s=%q} is %v in %d time series, want %v", tt.metric, tt.label, tt.value, got, series, tt.want)
		}
	}
	if up, series := sum(families["redlock_node_up"], "server_address", "127.0.0.1"); up < 3 || series != 5 {
		t.Errorf("of %d nodes %v are up, want 5, and at least the quorum that the locks had", series, up)
	}
	if held := families["redlock_hold_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleSum(); held <= 0 {
		t.Errorf("the locks were held for %vs in all, want some", held)
	}
	if lost, series := sum(families["redlock_lock_lost_total"], "", ""); series > 0 {
		t.Errorf("%v locks were lost", lost)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run = %v after an interrupt, want nil", err)
	}
}

func TestAnInterruptEndsWorkersThatHaveNoEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, io.Discard, []string{"--listen", "127.0.0.1:0"}); err != nil && !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("run = %v, want it to end by the interrupt", err)
	}
}

func TestFlagsThatAreWrong(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--bogus"}, "--help"},
		{[]string{"--workers", "0"}, "at least 1 worker"},
		{[]string{"--jobs", "-1"}, "no fewer than 0 jobs"},
		{[]string{"--job", "0s"}, "more than 0s"},
		{[]string{"--client", "redis"}, `--client "redis"`},
		{[]string{"--listen", "nowhere"}, "nowhere"},
	} {
		if err := run(t.Context(), io.Discard, tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("run %q = %v, want an error with %q", tt.args, err, tt.want)
		}
	}
}
