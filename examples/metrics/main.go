// Metrics is a service whose workers take locks of three orders, again and again, and a page that
// shows Prometheus what comes of it: how long they wait, how long they hold, and how the nodes are.
//
//	go run ./metrics
//	curl -s http://127.0.0.1:9464/metrics | grep redlock
//
// Two lines of it are the library's: redlock.WithHooks(telemetry.Hooks()) and telemetry.Observe(locker).
// The rest is OpenTelemetry's SDK with its exporter for Prometheus; for traces, give otelredlock.New a
// tracer provider too. Each metric says what it is; their attributes, and what to do about alerts, are in
// docs/operations.md; rules and a dashboard are in docs/observability.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

var listen = flag.String("listen", "127.0.0.1:9464", "the address of the page /metrics")

func main() { program.Main(run) }

// work does five jobs, each under the lock of an order that other workers want as well.
func work(ctx context.Context, locker *redlock.Locker) error {
	for job := range 5 {
		err := locker.Do(ctx, fmt.Sprintf("orders:%d", job%3), func(ctx context.Context) error {
			return program.Sleep(ctx, 20*time.Millisecond)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tell returns what tells the registry. Keys are named by what is before their ids: each name is a
// time series.
func tell(registry *prometheus.Registry) (*otelredlock.Telemetry, error) {
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry), prometheusexporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	return otelredlock.New(
		otelredlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter))),
		otelredlock.WithKeyName(func(key string) string {
			name, _, _ := strings.Cut(key, ":")
			return name
		}))
}

func run(ctx context.Context, s program.Stage) error {
	registry := prometheus.NewRegistry()
	telemetry, err := tell(registry)
	if err != nil {
		return err
	}
	locker, err := s.Open(redlock.WithHooks(telemetry.Hooks()))
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }() // nothing is held any more
	defer telemetry.Observe(locker)()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // until it is closed
	defer serving.Wait()
	defer func() { _ = server.Close() }()

	if err := program.Together(4, func(int) error { return work(ctx, locker) }); err != nil {
		return err
	}
	for locker.Stats().Hooks.Queued > 0 { // hooks hear of an end a moment later
		if err := program.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	url := "http://" + listener.Addr().String() + "/metrics"
	s.Printf("Four workers have each done five jobs, under the locks of three orders. %s says:", url)
	if err := scrape(ctx, s, url); err != nil {
		return err
	}
	s.Println("\nThe page stays until Ctrl-C.")
	<-ctx.Done()
	return nil
}

// told are some of the library's metrics, as Prometheus spells them.
var told = []struct{ metric, means string }{
	{"redlock_acquire_duration_seconds_count", "Locks that were taken: at once (direct), or after a wait for another worker (handed_over, woken)."},
	{"redlock_hold_duration_seconds_count", "Locks that ended, and how."},
	{"redlock_hold_duration_seconds_sum", "For how many seconds they were held, all together."},
	{"redlock_lock_lost_total", "Locks that were lost while they were held."},
	{"redlock_locks", "Locks that are held now."},
	{"redlock_waiters", "Calls that wait for a lock now."},
	{"redlock_node_up", "Nodes that answer (1), or do not (0)."},
}

// scrape reads the page as Prometheus does, and prints what some of its lines say.
func scrape(ctx context.Context, s program.Stage, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true // the connection is not kept
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	page, err := io.ReadAll(answer.Body)
	for _, t := range told {
		if lines := regexp.MustCompile(`(?m)^`+t.metric+`[ {].*$`).FindAllString(string(page), -1); lines != nil {
			s.Printf("\n%s\n  %s", t.means, strings.Join(lines, "\n  "))
		}
	}
	return err
}
