package otel

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
	"github.com/quorumlock/quorumlock/redlocktest"
)

// live lets everything be told that alerts and the dashboard look at.
func (l *lab) live() {
	l.t.Helper()
	hooks := l.telemetry.Hooks()
	call := redlock.AcquireStart{Key: "orders:42", Kind: "exclusive"}
	for _, err := range []error{nil, redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrContended, redlock.ErrExpired} {
		ctx := hooks.AcquireStart(l.t.Context(), call)
		hooks.AcquireEnd(ctx, redlock.AcquireEnd{AcquireStart: call, Err: err, FenceRounds: 1})
		hooks.ReleaseEnd(ctx, redlock.ReleaseEnd{Key: call.Key, Err: err})
		hooks.ExtendEnd(ctx, redlock.ExtendEnd{Key: call.Key, Renewal: true, Granted: 2, Need: 2, Err: err})
		hooks.HoldEnd(ctx, redlock.HoldEnd{Key: call.Key, Reason: "lost", Err: redlock.ErrLost})
	}
	for range 100 { // drift is known after the clocks were read for long enough
		release(l.t, l.acquire("orders:42"))
		time.Sleep(20 * time.Second)
	}
	hooks.Batch(redlock.NodeBatch{Node: l.nodes[0].Addr(), Requests: 1, Err: redlock.ErrClosed})
	synctest.Wait()
}

// The metrics as users see them: name, kind and unit, and the attributes that any of their time
// series has. Docs, alerts and dashboards name them, so a change here breaks what users have.
var table = map[string]struct {
	kind, unit, attributes string
}{
	"redlock.acquire.duration":          {"histogram", "s", "redlock.key.name redlock.outcome redlock.path"},
	"redlock.acquire.tries":             {"histogram", "{try}", "redlock.outcome"},
	"redlock.hold.duration":             {"histogram", "s", "redlock.end redlock.key.name"},
	"redlock.lock.lost":                 {"counter", "{lock}", "error.type redlock.key.name"},
	"redlock.extend.duration":           {"histogram", "s", "redlock.outcome redlock.renewal"},
	"redlock.renewal.spare_votes":       {"histogram", "{vote}", ""},
	"redlock.release.duration":          {"histogram", "s", "redlock.handed_over redlock.outcome"},
	"redlock.locks":                     {"up-down counter", "{lock}", ""},
	"redlock.waiters":                   {"up-down counter", "{waiter}", ""},
	"redlock.cleanups":                  {"up-down counter", "{cleanup}", ""},
	"redlock.node.batch.duration":       {"histogram", "s", "error.type server.address server.port"},
	"redlock.node.batch.size":           {"histogram", "{request}", "error.type server.address server.port"},
	"redlock.node.up":                   {"up-down counter", "{node}", "server.address server.port"},
	"redlock.node.quarantine.remaining": {"gauge", "s", "server.address server.port"},
	"redlock.node.queue.length":         {"gauge", "{request}", "server.address server.port"},
	"redlock.node.clock.offset":         {"gauge", "s", "server.address server.port"},
	"redlock.node.clock.drift":          {"gauge", "1", "server.address server.port"},
	"redlock.fence.rounds":              {"counter", "{round}", ""},
	"db.client.operation.duration":      {"histogram", "s", "db.operation.name db.system.name error.type server.address server.port"},
}

func kindOf(m metricdata.Metrics) string {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64], metricdata.Histogram[int64]:
		return "histogram"
	case metricdata.Sum[int64]:
		if data.IsMonotonic {
			return "counter"
		}
		return "up-down counter"
	case metricdata.Gauge[float64]:
		return "gauge"
	}
	return "unknown"
}

func TestTheMetricsAreThoseOfTheTable(t *testing.T) {
	with := settings{telemetry: everything(), locker: []redlock.Option{redlock.WithFences()}}
	inBubble(t, with, func(t *testing.T, l *lab) {
		l.live()
		all := l.collect()
		for name, m := range all {
			want, ok := table[name]
			if !ok || kindOf(m) != want.kind || m.Unit != want.unit || m.Description == "" {
				t.Errorf("%s is a %s in %q (%s), want %+v and what it is", name, kindOf(m), m.Unit, m.Description, want)
			}
			var attributes []string
			for _, p := range pointsOf(m) {
				for _, kv := range regexp.MustCompile(`([a-z_.]+)=`).FindAllStringSubmatch(p.Attributes, -1) {
					attributes = append(attributes, kv[1])
				}
			}
			slices.Sort(attributes)
			if got := strings.Join(slices.Compact(attributes), " "); got != want.attributes {
				t.Errorf("%s has the attributes %q, want %q", name, got, want.attributes)
			}
		}
		for name := range table {
			if _, ok := all[name]; !ok {
				t.Errorf("there is no %s", name)
			}
		}
		bounds := all["redlock.acquire.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0].Bounds
		if len(bounds) == 0 || bounds[0] != .00025 || bounds[len(bounds)-1] != 60 {
			t.Errorf("the bounds of durations are %v, want 0.25ms to 60s", bounds)
		}
	})
}

// read returns a file of the repository.
func read(t testing.TB, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheDocsHaveAllMetricsAndNoOthers(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs", "operations.md"), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([^|]+) \\| ([^|]*) \\|").FindAllStringSubmatch(section, -1) {
		want, ok := table[row[1]]
		if about := want.kind + ", " + want.unit; !ok || row[2] != about {
			t.Errorf("docs say %s of %s, want %q", row[2], row[1], about)
		}
		var attributes []string
		for _, a := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(row[3], -1) {
			attributes = append(attributes, a[1])
		}
		slices.Sort(attributes)
		if got := strings.Join(attributes, " "); got != want.attributes {
			t.Errorf("docs say that %s has the attributes %q, want %q", row[1], got, want.attributes)
		}
		named = append(named, row[1])
	}
	for name := range table {
		if !slices.Contains(named, name) {
			t.Errorf("docs do not have %s", name)
		}
	}
}

// spelt returns what Prometheus reads: the names of metrics and of labels, and the values of
// labels.
func spelt(t *testing.T) (metrics, labels []string, values map[string][]string) {
	t.Helper()
	values = make(map[string][]string)
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry))
		if err != nil {
			t.Fatal(err)
		}
		l := newLab(t, redlocktest.StartInBubble(t, size), settings{
			telemetry: append(everything(), otelredlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter)))),
			locker:    []redlock.Option{redlock.WithFences()},
		})
		l.live()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			metrics = append(metrics, f.GetName())
			for _, m := range f.GetMetric() {
				if m.GetHistogram() != nil {
					metrics = append(metrics, f.GetName()+"_bucket", f.GetName()+"_sum", f.GetName()+"_count")
				}
				for _, label := range m.GetLabel() {
					labels = append(labels, label.GetName())
					values[label.GetName()] = append(values[label.GetName()], label.GetValue())
				}
			}
		}
	})
	return metrics, labels, values
}

func TestAlertsAndDashboardNameWhatThereIs(t *testing.T) {
	metrics, labels, values := spelt(t)
	word := regexp.MustCompile(`\b(redlock|db|error|server)_[a-z_]+\b`)
	matcher := regexp.MustCompile(`\b((?:redlock|error|server)_[a-z_]+)(?:=|!=|=~|!~)\\*"([^"\\]+)`)
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "grafana.json"} {
		text := read(t, "docs", "observability", file)
		words := word.FindAllString(text, -1)
		if len(words) < 5 {
			t.Errorf("%s names %q only, so the test looks at too little", file, words)
		}
		for _, w := range words {
			if !slices.Contains(metrics, w) && !slices.Contains(labels, w) {
				t.Errorf("%s names %s, which is neither a metric nor a label; there are %q and %q", file, w, metrics, labels)
			}
		}
		if file == "alerts.yml" {
			docs := read(t, "docs", "operations.md")
			for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(text, -1) {
				if !strings.Contains(docs, "\n### "+alert[1]+"\n") || !strings.Contains(text, "#"+strings.ToLower(alert[1])+"\n") ||
					!strings.Contains(read(t, "docs", "observability", "alerts_test.yml"), "alertname: "+alert[1]+"\n") {
					t.Errorf("%s has no section in docs/operations.md, no link to it, or no test", alert[1])
				}
			}
		}
		if file == "alerts_test.yml" { // whose nodes are its own
			continue
		}
		for _, m := range matcher.FindAllStringSubmatch(text, -1) {
			for value := range strings.SplitSeq(m[2], "|") {
				if !strings.HasPrefix(value, "$") && !slices.Contains(values[m[1]], value) {
					t.Errorf("%s wants %s to be %q, which it never is, but %q", file, m[1], value, values[m[1]])
				}
			}
		}
	}
}
