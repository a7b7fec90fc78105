// Metrics is a service whose workers take locks, and which shows Prometheus what comes of it: how long
// they wait, how long they hold, and how the nodes are.
//
//	go run ./metrics
//	curl -s http://127.0.0.1:9464/metrics | grep redlock
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/quorumlock/quorumlock/examples/internal/nodes"
	"github.com/quorumlock/quorumlock/examples/internal/program"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

func main() {
	program.Main("metrics", run)
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := program.NewFlags("metrics")
	listen := flags.String("listen", "127.0.0.1:9464", "the address of the page /metrics")
	workers := flags.Int("workers", 4, "how many workers there are")
	jobs := flags.Int("jobs", 0, "how many jobs each of them does; 0: as many as there is time for")
	job := flags.Duration("job", 100*time.Millisecond, "how long a job takes at most")
	if goOn, err := flags.Read(out, args); !goOn {
		return err
	}
	if *workers < 1 || *jobs < 0 || *job <= 0 {
		return errors.New("--workers, --jobs, --job: want at least 1 worker, no fewer than 0 jobs, and more than 0s")
	}

	list, stop, err := nodes.Open(flags.Client, flags.Nodes)
	if err != nil {
		return err
	}
	defer stop()
	registry := prometheus.NewRegistry()
	telemetry, err := tell(registry)
	if err != nil {
		return err
	}
	// On a laptop that compiles meanwhile, the embedded nodes may be late.
	locker, err := redlock.New(list, redlock.WithHooks(telemetry.Hooks()), redlock.WithTTL(30*time.Second), redlock.WithNodeTimeout(5*time.Second))
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }() // what is left at the nodes expires
	defer telemetry.Observe(locker)()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	say := log.New(out, "", 0) // a Logger, because the workers print at the same time
	say.Printf("Metrics are at http://%s/metrics; %d workers take locks. Ctrl-C ends them.", listener.Addr(), *workers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for range *workers {
		all.Go(func() { work(ctx, say, locker, *jobs, *job) })
	}
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		all.Wait()
		say.Print("All jobs are done.")
	}()
	err = serve(ctx, listener, registry)
	cancel()
	<-worked
	return err
}

// tell returns what tells the registry. Keys are named by what is before their ids.
func tell(registry *prometheus.Registry) (*otelredlock.Telemetry, error) {
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry))
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

// serve shows the registry until ctx ends.
func serve(ctx context.Context, listener net.Listener, registry *prometheus.Registry) error {
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 5 * time.Second}
	ended := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer ended()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// work does jobs, each under the lock of an order that other workers want as well.
func work(ctx context.Context, say *log.Logger, locker *redlock.Locker, jobs int, job time.Duration) {
	for done := 0; jobs == 0 || done < jobs; done++ {
		key := fmt.Sprintf("orders:%d", rand.IntN(3)) //nolint:gosec // no secret
		err := locker.Do(ctx, key, func(ctx context.Context) error {
			select {
			case <-time.After(rand.N(job)): //nolint:gosec // likewise
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		})
		if ctx.Err() != nil {
			return // an interrupt is how it ends
		}
		if err != nil { // a service goes on, and its metrics tell
			say.Print(err)
		}
	}
}
